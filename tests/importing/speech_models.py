"""Writes a small random Whisper as a Hugging Face folder; runs in an environment with transformers."""

import json
from pathlib import Path

import torch
from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers, trainers
from transformers import (
    GenerationConfig,
    PreTrainedTokenizerFast,
    WhisperConfig,
    WhisperFeatureExtractor,
    WhisperForConditionalGeneration,
)

SPECIAL = (
    *("<|endoftext|>", "<|startoftranscript|>", "<|en|>", "<|de|>"),
    *("<|translate|>", "<|transcribe|>", "<|notimestamps|>"),
)
tokenizer = Tokenizer(models.BPE())
tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel()
alphabet = pre_tokenizers.ByteLevel.alphabet()
trainer = trainers.BpeTrainer(vocab_size=280, initial_alphabet=alphabet)
tokenizer.train_from_iterator(["the quick brown fox jumps over the lazy dog"] * 10, trainer)
tokenizer.add_special_tokens([AddedToken(each, special=True) for each in SPECIAL])
ids = {each: tokenizer.token_to_id(each) for each in SPECIAL}
end, start = ids["<|endoftext|>"], ids["<|startoftranscript|>"]
torch.manual_seed(0)
model = WhisperForConditionalGeneration(
    WhisperConfig(
        d_model=64, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4,
        encoder_ffn_dim=128, decoder_ffn_dim=128, num_mel_bins=20, max_source_positions=50,
        max_target_positions=80, vocab_size=tokenizer.get_vocab_size(), pad_token_id=end, bos_token_id=end,
        eos_token_id=end, decoder_start_token_id=start, init_std=0.2,
    )
)  # fmt: skip
model.generation_config = GenerationConfig(
    eos_token_id=end,
    lang_to_id={each: ids[each] for each in ("<|en|>", "<|de|>")},
    task_to_id={each: ids[f"<|{each}|>"] for each in ("transcribe", "translate")},
    no_timestamps_token_id=ids["<|notimestamps|>"],
    is_multilingual=True,
)
model.save_pretrained("whisper")
PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=SPECIAL[0]).save_pretrained("whisper")
# As processors of transformers 5 save it, without preprocessor_config.json.
extractor = WhisperFeatureExtractor(feature_size=20, chunk_length=1).to_dict()
Path("whisper/processor_config.json").write_text(json.dumps({"feature_extractor": extractor}))
