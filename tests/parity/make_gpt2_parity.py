#!/usr/bin/env python3
"""Writes gpt2_parity.json: a small GPT-2 and ten steps of AdamW, by PyTorch in double precision.

Run by hand, where PyTorch is installed:  make_gpt2_parity.py gpt2_parity.json
tests/parity_test.cc reads the file. Initial weights and tokens come from an integer
formula that both sides compute exactly (weight_at, token_at), so the file holds only
results: losses, gradient norms, the first step's gradients and the final weights.
"""
import json
import math
import sys

import numpy as np
import torch
import torch.nn.functional as F

LAYERS, HEADS, WIDTH, CONTEXT, VOCABULARY = 2, 2, 16, 8, 13
SEQUENCES, STEPS = 6, 10
LEARNING_RATE, BETA1, BETA2, WEIGHT_DECAY, CLIP_NORM = 1e-2, 0.9, 0.95, 0.1, 0.8
# Large, because the gradient of a key's bias is zero but for rounding, which AdamW
# with the usual 1e-8 would blow up to steps of the learning rate.
EPSILON = 1e-4


def hash32(index):
    """A 32-bit mix of a counter."""
    x = (index * 2654435761 + 12345) % 2**32
    x ^= x >> 15
    x = x * 2246822519 % 2**32
    return x ^ (x >> 13)


def weight_at(parameter, element, is_gain):
    """In [-0.25, 0.25), around 1 for a LayerNorm's gain; exact in double and float."""
    value = ((hash32(parameter * 65536 + element) >> 12) / 2**20 - 0.5) / 2
    return 1 + value if is_gain else value


def token_at(sequence, position):
    return hash32(2**31 + sequence * 64 + position) % VOCABULARY


def shapes():
    yield "embedding", "wte.weight", (VOCABULARY, WIDTH)
    yield "embedding", "wpe.weight", (CONTEXT, WIDTH)
    for layer in range(LAYERS):
        for name, shape in [
            ("ln_1.weight", (WIDTH,)), ("ln_1.bias", (WIDTH,)),
            ("attn.c_attn.weight", (WIDTH, 3 * WIDTH)), ("attn.c_attn.bias", (3 * WIDTH,)),
            ("attn.c_proj.weight", (WIDTH, WIDTH)), ("attn.c_proj.bias", (WIDTH,)),
            ("ln_2.weight", (WIDTH,)), ("ln_2.bias", (WIDTH,)),
            ("mlp.c_fc.weight", (WIDTH, 4 * WIDTH)), ("mlp.c_fc.bias", (4 * WIDTH,)),
            ("mlp.c_proj.weight", (4 * WIDTH, WIDTH)), ("mlp.c_proj.bias", (WIDTH,)),
        ]:
            yield "block.%d" % layer, name, shape
    yield "head", "ln_f.weight", (WIDTH,)
    yield "head", "ln_f.bias", (WIDTH,)


def initial_parameters():
    parameters = {}
    for number, (unit, name, shape) in enumerate(shapes()):
        is_gain = "ln_" in name and name.endswith("weight")
        values = [weight_at(number, i, is_gain) for i in range(math.prod(shape))]
        tensor = torch.tensor(values, dtype=torch.float64).reshape(shape)
        parameters[unit, name] = tensor.requires_grad_()
    return parameters


def loss_of(parameters, tokens, targets):
    batch, length = tokens.shape
    x = parameters["embedding", "wte.weight"][tokens] + parameters["embedding", "wpe.weight"][:length]
    mask = torch.full((length, length), -math.inf, dtype=torch.float64).triu(1)
    for layer in range(LAYERS):
        def p(name, unit="block.%d" % layer):
            return parameters[unit, name]
        h = F.layer_norm(x, (WIDTH,), p("ln_1.weight"), p("ln_1.bias"), 1e-5)
        qkv = h @ p("attn.c_attn.weight") + p("attn.c_attn.bias")
        q, k, v = (
            t.view(batch, length, HEADS, WIDTH // HEADS).transpose(1, 2)
            for t in qkv.split(WIDTH, dim=2)
        )
        scores = q @ k.transpose(2, 3) / math.sqrt(WIDTH // HEADS) + mask
        mixed = (scores.softmax(-1) @ v).transpose(1, 2).reshape(batch, length, WIDTH)
        x = x + mixed @ p("attn.c_proj.weight") + p("attn.c_proj.bias")
        h = F.layer_norm(x, (WIDTH,), p("ln_2.weight"), p("ln_2.bias"), 1e-5)
        h = h @ p("mlp.c_fc.weight") + p("mlp.c_fc.bias")
        h = 0.5 * h * (1 + torch.tanh(math.sqrt(2 / math.pi) * (h + 0.044715 * h**3)))
        x = x + h @ p("mlp.c_proj.weight") + p("mlp.c_proj.bias")
    x = F.layer_norm(x, (WIDTH,), parameters["head", "ln_f.weight"],
                     parameters["head", "ln_f.bias"], 1e-5)
    logits = x @ parameters["embedding", "wte.weight"].T
    return F.cross_entropy(logits.view(-1, VOCABULARY), targets.reshape(-1))


def rounded(tensor):
    """To float, whose shortest decimal reads back to the same bits."""
    return [float(str(np.float32(x))) for x in tensor.detach().reshape(-1).numpy()]


def main():
    parameters = initial_parameters()
    optimizer = torch.optim.AdamW(
        [{"params": [p for p in parameters.values() if p.dim() >= 2], "weight_decay": WEIGHT_DECAY},
         {"params": [p for p in parameters.values() if p.dim() < 2], "weight_decay": 0.0}],
        lr=LEARNING_RATE, betas=(BETA1, BETA2), eps=EPSILON)
    losses, norms, gradients = [], [], []
    for step in range(STEPS):
        text = torch.tensor([[token_at(step * SEQUENCES + s, t) for t in range(CONTEXT + 1)]
                             for s in range(SEQUENCES)])
        optimizer.zero_grad()
        loss = loss_of(parameters, text[:, :-1], text[:, 1:])
        loss.backward()
        if step == 0:
            gradients = [rounded(p.grad) for p in parameters.values()]
        norms.append(float(torch.nn.utils.clip_grad_norm_(parameters.values(), CLIP_NORM)))
        losses.append(float(loss.detach()))
        optimizer.step()
    result = {
        "config": {"layers": LAYERS, "heads": HEADS, "width": WIDTH, "context": CONTEXT,
                   "vocabulary": VOCABULARY, "sequences": SEQUENCES,
                   "learning_rate": LEARNING_RATE, "beta1": BETA1, "beta2": BETA2,
                   "epsilon": EPSILON, "weight_decay": WEIGHT_DECAY, "clip_norm": CLIP_NORM},
        "losses": losses,
        "norms": norms,
        "parameters": [
            {"unit": unit, "name": name, "gradient": gradient, "final": rounded(p)}
            for ((unit, name), p), gradient in zip(parameters.items(), gradients)
        ],
    }
    with open(sys.argv[1], "w") as file:
        json.dump(result, file, separators=(",", ":"))
        file.write("\n")
    print("losses", losses)
    print("norms", norms)


if __name__ == "__main__":
    main()
