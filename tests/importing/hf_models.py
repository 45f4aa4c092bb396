"""Writes small random Hugging Face folders; runs in an environment with transformers."""

import json
from pathlib import Path

import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import (
    BertConfig,
    BertForMaskedLM,
    BertForSequenceClassification,
    GPT2Config,
    GPT2LMHeadModel,
    PreTrainedTokenizerFast,
    RobertaConfig,
    RobertaModel,
    SegformerConfig,
    SegformerForSemanticSegmentation,
    T5Config,
    T5ForConditionalGeneration,
    ViTConfig,
    ViTForImageClassification,
    Wav2Vec2Config,
    Wav2Vec2FeatureExtractor,
    Wav2Vec2ForSequenceClassification,
    WhisperConfig,
    WhisperFeatureExtractor,
    WhisperForConditionalGeneration,
)

torch.manual_seed(0)
SMALL = {
    "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64,
}  # fmt: skip
TEXT = {**SMALL, "vocab_size": 60, "max_position_embeddings": 64}
WHISPER = {
    "d_model": 32, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2, "vocab_size": 60,
    "decoder_attention_heads": 2, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "max_source_positions": 50,
    "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1,
}  # fmt: skip
SPEECH = {
    **SMALL, "num_feat_extract_layers": 2, "conv_dim": (16, 16), "conv_stride": (5, 4), "conv_kernel": (10, 8),
    "num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 2, "classifier_proj_size": 16,
}  # fmt: skip
SAVED = {
    "bert": BertForSequenceClassification(BertConfig(**TEXT, num_labels=3)),
    "masked": BertForMaskedLM(BertConfig(**TEXT)).bfloat16(),
    "roberta": RobertaModel(RobertaConfig(**TEXT, type_vocab_size=1), add_pooling_layer=False),
    "vit": ViTForImageClassification(ViTConfig(**SMALL, image_size=32, patch_size=8)),
    "segformer": SegformerForSemanticSegmentation(
        SegformerConfig(depths=[1] * 4, hidden_sizes=[8, 16, 40, 64], decoder_hidden_size=16)
    ),
    "whisper": WhisperForConditionalGeneration(WhisperConfig(**WHISPER)),
    "t5": T5ForConditionalGeneration(
        T5Config(vocab_size=60, d_model=32, d_kv=16, d_ff=64, num_layers=1, num_heads=2)
    ),
    "speech": Wav2Vec2ForSequenceClassification(Wav2Vec2Config(**SPEECH)),
    "gpt": GPT2LMHeadModel(GPT2Config(n_embd=32, n_layer=1, n_head=2, vocab_size=60, n_positions=64)),
}
for name, model in SAVED.items():
    model.save_pretrained(name)
known = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *(f"word{k}" for k in range(56))]
words = {word: k for k, word in enumerate(known)}
tokenizer = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))  # noqa: S106 - no password
tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
tokenizer.post_processor = processors.TemplateProcessing("[CLS] $A [SEP]", None, [("[CLS]", 2), ("[SEP]", 3)])
named = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
PreTrainedTokenizerFast(tokenizer_object=tokenizer, **named).save_pretrained("bert")
WhisperFeatureExtractor(chunk_length=1).save_pretrained("whisper")
pixels = {"size": {"height": 64, "width": 96}, "image_mean": [0.1, 0.2, 0.3], "image_std": [0.2, 0.2, 0.2]}
Wav2Vec2FeatureExtractor(do_normalize=True).save_pretrained("speech")
clip = {"image_processor_type": "CLIPImageProcessor", "size": {"shortest_edge": 40}, "crop_size": 32}
Path("vit/preprocessor_config.json").write_text(json.dumps(clip))
Path("segformer/preprocessor_config.json").write_text(json.dumps(pixels))
