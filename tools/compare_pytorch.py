#!/usr/bin/env python3
"""Trains GPT-2 124M in PyTorch, for a comparison with `tessera bench gpu`.

The same model, shapes and arithmetic: 12 layers of width 768, context 1,024, vocabulary
50,257, bf16 with fp32 master weights, gradients clipped at 1, AdamW; compiled with
torch.compile, with scaled_dot_product_attention and fused AdamW. Prints one JSON object
with the median tokens/s and, where --tessera names the file of `tessera bench gpu
--json`, the ratio of Tessera's to it.

Needs a GPU and PyTorch 2.1 or later; Tessera itself needs neither Python nor PyTorch.
"""

import argparse
import json
import statistics
import time

import torch
from torch import nn
from torch.nn import functional

LAYERS, HEADS, WIDTH, CONTEXT, VOCABULARY = 12, 12, 768, 1024, 50257


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1 = nn.LayerNorm(WIDTH)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.attention_out = nn.Linear(WIDTH, WIDTH)
        self.ln_2 = nn.LayerNorm(WIDTH)
        self.mlp_in = nn.Linear(WIDTH, 4 * WIDTH)
        self.mlp_out = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        batch, context, _ = x.shape
        heads = self.qkv(self.ln_1(x)).view(batch, context, 3, HEADS, WIDTH // HEADS)
        q, k, v = heads.permute(2, 0, 3, 1, 4)
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.attention_out(y.transpose(1, 2).reshape(batch, context, WIDTH))
        y = functional.gelu(self.mlp_in(self.ln_2(x)), approximate="tanh")
        return x + self.mlp_out(y)


class Gpt2(nn.Module):
    def __init__(self, vocabulary):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, WIDTH)
        self.positions = nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.ln_f = nn.LayerNorm(WIDTH)
        for parameter in self.parameters():
            if parameter.dim() == 2:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, tokens, targets):
        positions = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.tokens(tokens) + self.positions(positions)
        for block in self.blocks:
            x = block(x)
        # The head's matrix is the embedding's.
        logits = functional.linear(self.ln_f(x), self.tokens.weight)
        return functional.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())


def step_seconds(sequences, vocabulary, steps, uncounted):
    """Seconds of each counted step."""
    torch.manual_seed(1)
    torch.set_float32_matmul_precision("high")
    model = Gpt2(vocabulary).cuda()
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=1e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True
    )
    compiled = torch.compile(model)
    seconds = []
    for step in range(uncounted + steps):
        # As much as Tessera's step has to read.
        tokens, targets = (
            torch.randint(VOCABULARY, (sequences, CONTEXT)).pin_memory().cuda(non_blocking=True)
            for _ in range(2)
        )
        torch.cuda.synchronize()
        start = time.perf_counter()
        with torch.autocast("cuda", torch.bfloat16):
            loss = compiled(tokens, targets)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        torch.cuda.synchronize()
        if step >= uncounted:
            seconds.append(time.perf_counter() - start)
    return seconds


def figure(report, name):
    """The value of a figure that `tessera bench gpu` wrote, or None."""
    values = [entry["value"] for entry in report["figures"] if entry["name"] == name]
    return values[0] if values else None


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--sequences", type=int, default=16, help="of a micro-batch")
    parser.add_argument("--steps", type=int, default=20, help="counted ones")
    parser.add_argument(
        "--padded", action="store_true", help="a vocabulary of 50,304, which suits tensor cores"
    )
    parser.add_argument("--tessera", metavar="FILE", help="of tessera bench gpu --json")
    arguments = parser.parse_args()

    vocabulary = 50304 if arguments.padded else VOCABULARY
    seconds = step_seconds(arguments.sequences, vocabulary, arguments.steps, uncounted=5)
    tokens = arguments.sequences * CONTEXT
    result = {
        "device": torch.cuda.get_device_name(),
        "pytorch": torch.__version__,
        "sequences": arguments.sequences,
        "vocabulary": vocabulary,
        "tokens_per_second": tokens / statistics.median(seconds),
    }
    if arguments.tessera:
        with open(arguments.tessera, encoding="utf-8") as file:
            ours = figure(json.load(file), "GPT-2 124M tokens")
        if ours is not None:
            result["tessera_tokens_per_second"] = ours
            result["ratio"] = ours / result["tokens_per_second"]
    print(json.dumps(result))


if __name__ == "__main__":
    main()
