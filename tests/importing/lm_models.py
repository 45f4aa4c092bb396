"""Writes small random language models as Hugging Face folders; runs in an environment with transformers."""

import torch
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    MambaConfig,
    MambaForCausalLM,
    PreTrainedTokenizerFast,
)

torch.manual_seed(0)
GPT = {"n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 64}
LLAMA = {
    "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "intermediate_size": 128, "max_position_embeddings": 128, "rope_theta": 50_000.0, "tie_word_embeddings": True,
}  # fmt: skip
NAMED = {"vocab_size": 96, "bos_token_id": 0, "eos_token_id": 1}
SAVED = {
    "gpt": GPT2LMHeadModel(GPT2Config(**GPT, **NAMED)),
    "llama": LlamaForCausalLM(LlamaConfig(**LLAMA, **NAMED)),
    "mamba": MambaForCausalLM(MambaConfig(hidden_size=32, num_hidden_layers=2, **NAMED)),
}
tokenizer = Tokenizer(models.BPE())
tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel()
trainer = trainers.BpeTrainer(vocab_size=96, special_tokens=["<s>", "</s>"])
tokenizer.train_from_iterator(["the quick brown fox jumps over the lazy dog"] * 10, trainer)
made = PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>")  # noqa: S106 - no password
for name, model in SAVED.items():
    model.save_pretrained(name)
    made.chat_template = "{% for each in messages %}{{ each.content }}{% endfor %}" if name == "llama" else None
    made.save_pretrained(name)
