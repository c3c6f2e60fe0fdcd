#!/usr/bin/env python3
"""Makes huggingface_gpt2/: a small GPT-2 of the transformers package with random weights,
and the logits that the package computes for some tokens.

    make_huggingface_gpt2.py FOLDER             makes it
    make_huggingface_gpt2.py FOLDER --check     whether the model in FOLDER, such as one that
                                                tessera exported, gives those logits
Needs torch and transformers (made with 1.13.1 and 4.35.2)."""

import json
import sys
from pathlib import Path

import torch
from transformers import GPT2Config, GPT2LMHeadModel

TOKENS = [[3, 1, 4, 1, 5, 9, 2, 6], [28, 0, 17, 11, 11, 23, 8, 14]]


def make(folder):
    torch.manual_seed(7)
    config = GPT2Config(n_layer=2, n_head=2, n_embd=16, n_positions=8, vocab_size=29)
    model = GPT2LMHeadModel(config)
    for parameter in model.parameters():  # gains and biases, too
        torch.nn.init.normal_(parameter, 1.0 if parameter.mean() == 1 else 0.0, 0.3)
    model.save_pretrained(folder, safe_serialization=True)
    reference = {"tokens": TOKENS, "logits": logits(model)}
    (folder / "logits.json").write_text(json.dumps(reference) + "\n")


def logits(model):
    model.eval()
    with torch.no_grad():
        return model(torch.tensor(TOKENS)).logits.flatten().tolist()


def check(folder):
    reference = json.loads((Path(__file__).parent / "huggingface_gpt2/logits.json").read_text())
    here = logits(GPT2LMHeadModel.from_pretrained(folder).float())
    worst = max(abs(a - b) for a, b in zip(here, reference["logits"]))
    print(f"{len(here)} logits, the largest difference is {worst:.2g}")


if __name__ == "__main__":
    (check if "--check" in sys.argv else make)(Path(sys.argv[1]))
