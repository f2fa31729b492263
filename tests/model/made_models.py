#!/usr/bin/env python3
"""Writes made_models.jsonl, a tiny model of each family that no fixture has: its config, the shapes of its
tensors, whose values are made of their names (as made_models_test.cpp makes them), token ids, and logits by
transformers (5.24) in float64 with eager attention. pip install torch transformers; made_models.py OUT"""
import json, re, sys, tempfile
import torch
from made_values import IDS, SOURCE, logits_of, values
from safetensors.numpy import load_file, save_file
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForImageTextToText, AutoModelForMaskedLM, AutoModelForSeq2SeqLM

ROPE = {"rope_type": "default", "rope_theta": 10000.0}
BASE = dict(vocab_size=64, hidden_size=48, intermediate_size=56, num_hidden_layers=2, num_attention_heads=4,
            num_key_value_heads=2, head_dim=16, max_position_embeddings=160, rms_norm_eps=0.02, bos_token_id=1,
            eos_token_id=2, pad_token_id=None, rope_parameters=ROPE, tie_word_embeddings=False)
SAME = {k: v for k, v in BASE.items() if k != "head_dim"} | dict(hidden_size=64)  # heads that fill the width
GPT = dict(vocab_size=64, n_positions=160, n_embd=48, n_layer=2, n_head=3, layer_norm_epsilon=0.02, bos_token_id=1, eos_token_id=2)
GRANITE = dict(embedding_multiplier=3.0, residual_multiplier=0.4, attention_multiplier=0.2, logits_scaling=2.0)
EXPERTS = dict(n_routed_experts=6, num_experts_per_tok=2, moe_intermediate_size=24, n_group=2, topk_group=1,
               first_k_dense_replace=1, routed_scaling_factor=1.5, num_hidden_layers=3)
LATENT = dict(kv_lora_rank=24, q_lora_rank=20, qk_rope_head_dim=8, qk_nope_head_dim=12, v_head_dim=16,
              num_key_value_heads=4, head_dim=8)
INDEXER = dict(n_shared_experts=1, index_topk=5, index_n_heads=8, index_head_dim=16)
LLAMA4 = BASE | dict(num_hidden_layers=4, intermediate_size=20, intermediate_size_mlp=56, num_local_experts=5)
BERT = dict(vocab_size=64, hidden_size=48, intermediate_size=56, num_hidden_layers=2, num_attention_heads=3,
            max_position_embeddings=40, layer_norm_eps=0.02)
MODERN = dict(vocab_size=64, hidden_size=48, intermediate_size=56, num_hidden_layers=4, num_attention_heads=3,
              max_position_embeddings=160, norm_eps=0.02, bos_token_id=1, eos_token_id=2, pad_token_id=0)
MIMO = {k: v for k, v in BASE.items() if k != "rope_parameters"} | dict(
    num_hidden_layers=4, v_head_dim=12, n_routed_experts=6, num_experts_per_tok=2, moe_intermediate_size=24,
    attention_value_scale=0.6)
COHERE = {k: v for k, v in BASE.items() if k != "rms_norm_eps"} | dict(
    layer_norm_eps=0.02, num_hidden_layers=4, sliding_window=7, num_experts=6, num_experts_per_tok=2, intermediate_size=24,
    logit_scale=0.5)
DELTA = dict(num_hidden_layers=4, linear_conv_kernel_dim=4, linear_num_key_heads=2, linear_num_value_heads=6,
             linear_key_head_dim=12, linear_value_head_dim=16, full_attention_interval=4,
             rope_parameters=ROPE | {"partial_rotary_factor": 0.25})
KIMI = {k: v for k, v in (BASE | EXPERTS | LATENT).items() if k not in ("rope_parameters", "head_dim", "n_routed_experts")} | dict(
    num_local_experts=6, q_lora_rank=None, n_shared_experts=1, rms_norm_eps=1e-6, num_hidden_layers=4)
LING = {k: v for k, v in KIMI.items() if k != "q_lora_rank"} | dict(
    q_lora_rank=20, rope_theta=1e4, head_dim=12, short_conv_kernel_size=3, num_mtp_layers=0, kda_lower_bound=-2.5)
MAMBA = dict(num_hidden_layers=3, layer_types=["linear_attention", "full_attention", "linear_attention"],
             mamba_n_heads=8, mamba_d_head=16, mamba_expand=2, mamba_n_groups=2, mamba_d_state=12, mamba_d_conv=4)
FALCON = SAME | dict(num_hidden_layers=2, mamba_d_ssm=96, mamba_n_heads=6, mamba_d_head=16, mamba_n_groups=2, mamba_d_state=12,
                     mamba_d_conv=4)
OLMO_HYBRID = SAME | dict(num_hidden_layers=4, linear_num_key_heads=2, linear_num_value_heads=4, linear_key_head_dim=12,
                          linear_value_head_dim=20, attention_bias=True)
NEMOTRON = dict(vocab_size=64, hidden_size=48, intermediate_size=56, num_attention_heads=4, num_key_value_heads=2,
                head_dim=16, max_position_embeddings=160, layer_norm_epsilon=0.02, bos_token_id=1, eos_token_id=2,
                pad_token_id=None, ssm_state_size=12, mamba_num_heads=6, mamba_head_dim=16, n_groups=2)
STATES = dict(vocab_size=64, hidden_size=48, num_hidden_layers=3, state_size=12, conv_kernel=4, layer_norm_epsilon=0.02,
              bos_token_id=1, eos_token_id=2, pad_token_id=None)
JAMBA = dict(vocab_size=64, hidden_size=64, intermediate_size=40, num_hidden_layers=5, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=160, rms_norm_eps=0.02, bos_token_id=1, eos_token_id=2,
             pad_token_id=None, attn_layer_period=3, attn_layer_offset=1, mamba_d_state=12)
MINIMAX = dict(num_hidden_layers=4, num_local_experts=5, num_experts_per_tok=2, intermediate_size=24, block_size=9)
AXES = ROPE | {"mrope_section": [2, 3, 3]}
VISION = dict(depth=1, hidden_size=32, intermediate_size=32, num_heads=2, patch_size=14, out_hidden_size=48)
PIXTRAL = dict(model_type="pixtral", hidden_size=32, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2,
               head_dim=16, image_size=28, patch_size=14)
TYPES = ["sliding_attention", "sliding_attention", "full_attention", "sliding_attention"]
GEMMA4 = BASE | dict(sliding_window=7, pad_token_id=0, global_head_dim=32, vocab_size_per_layer_input=64, rope_parameters={
    "full_attention": dict(rope_type="proportional", rope_theta=1e4, partial_rotary_factor=0.25),
    "sliding_attention": dict(rope_type="default", rope_theta=1e3)})
PAIR = dict(vocab_size=64, d_model=48, encoder_layers=2, decoder_layers=3, encoder_ffn_dim=56, decoder_ffn_dim=40,
            encoder_attention_heads=3, decoder_attention_heads=4, max_position_embeddings=160)
DEBERTA = dict(
    model_type="deberta-v2", vocab_size=64, hidden_size=48, intermediate_size=56, num_hidden_layers=2, num_attention_heads=3,
    max_position_embeddings=40, layer_norm_eps=0.02, relative_attention=True, share_att_key=True, position_biased_input=False,
    pos_att_type=["p2c", "c2p"], norm_rel_ebd="layer_norm", position_buckets=8, max_relative_positions=12)
CONFIGS = {
    "arcee": BASE | dict(hidden_act="relu2", attention_bias=True),
    "iquestcoder": BASE | dict(attention_bias=True),
    "bitnet": SAME | dict(hidden_act="silu", tie_word_embeddings=True),
    "internlm3": BASE | dict(attention_bias=True, mlp_bias=True),
    "seed_oss": BASE | dict(attention_bias=True, attention_out_bias=True, mlp_bias=True),
    "helium": SAME | dict(head_dim=16),
    "ernie4_5": BASE | dict(use_bias=True),
    "gpt_bigcode": GPT | dict(n_inner=56),
    "gpt_bigcode-heads": GPT | dict(multi_query=False),
    "codegen": GPT | dict(n_head=4, n_embd=64, rotary_dim=8),
    "xglm": dict(vocab_size=64, d_model=48, ffn_dim=56, num_layers=2, attention_heads=3, max_position_embeddings=160),
    "biogpt": dict(vocab_size=64, hidden_size=48, intermediate_size=56, num_hidden_layers=2, num_attention_heads=3,
                   max_position_embeddings=160, layer_norm_eps=0.02),
    "nanochat": SAME | dict(hidden_act="relu2", final_logit_softcapping=3.0),
    "ministral": BASE | dict(sliding_window=8, layer_types=TYPES[:2]),
    "ministral3": BASE | dict(rope_parameters=dict(
        rope_type="yarn", rope_theta=1e4, factor=4.0, original_max_position_embeddings=7, beta_fast=32.0,
        beta_slow=1.0, mscale=1.0, mscale_all_dim=1.0, llama_4_scaling_beta=0.1)),
    "olmo3": SAME | dict(num_hidden_layers=4, sliding_window=7, layer_types=TYPES, rope_parameters={
        "full_attention": dict(rope_type="yarn", rope_theta=5e5, factor=4.0, original_max_position_embeddings=40),
        "sliding_attention": dict(rope_type="default", rope_theta=5e5)}),
    "exaone4": BASE | dict(num_hidden_layers=4, sliding_window=7, layer_types=TYPES),
    "exaone4-whole": BASE | dict(sliding_window=None, layer_types=["full_attention"] * 2),
    "granitemoehybrid": SAME | GRANITE | dict(
        position_embedding_type="rope", num_local_experts=0, num_experts_per_tok=0, shared_intermediate_size=40,
        layer_types=["full_attention"] * 2, mamba_n_heads=2, mamba_d_head=64, mamba_expand=2),
    "granite_swa": SAME | GRANITE | dict(num_hidden_layers=4, sliding_window=7, layer_types=TYPES[2:] + TYPES[1:3],
                                         layer_rope_theta=[0, 1e4, 500.0, 1e4], attention_bias=True),
    "granite_swa-one-base": SAME | GRANITE | dict(num_hidden_layers=3, sliding_window=7, layer_types=TYPES[2:] + TYPES[1:2],
                                                  layer_rope_theta=[0, 1e4, 1e4]),
    "granitemoe_swa": SAME | GRANITE | dict(
        num_hidden_layers=3, sliding_window=7, layer_types=TYPES[1:], layer_rope_theta=None, num_local_experts=5,
        num_experts_per_tok=2, intermediate_size=24, shared_intermediate_size=40),
    "apertus": BASE | dict(hidden_act="xielu"),
    "exaone": SAME | dict(rope_parameters=dict(
        rope_type="llama3", rope_theta=1e4, factor=4.0, low_freq_factor=1.0, high_freq_factor=4.0,
        original_max_position_embeddings=40)),
    "sarvam_mla": BASE | EXPERTS | LATENT | dict(n_shared_experts=1, q_lora_rank=None, rms_norm_eps=1e-6),
    "deepseek_v32": BASE | EXPERTS | LATENT | INDEXER | dict(rms_norm_eps=1e-6, rope_parameters=dict(
        type="yarn", rope_type="yarn", rope_theta=1e4, factor=4.0, original_max_position_embeddings=40, beta_fast=32.0,
        beta_slow=1.0, mscale=1.0, mscale_all_dim=1.0)),
    "glm_moe_dsa": BASE | EXPERTS | LATENT | INDEXER | dict(rms_norm_eps=1e-6, indexer_types=["full", "shared", "full"]),
    "granitemoe": SAME | GRANITE | dict(num_local_experts=5, num_experts_per_tok=2, intermediate_size=24),
    "granitemoeshared": SAME | GRANITE | dict(num_local_experts=5, num_experts_per_tok=2, intermediate_size=24,
                                              shared_intermediate_size=40),
    "llama4_text": LLAMA4 | dict(
        moe_layers=[0, 1, 3], num_experts_per_tok=2, attention_chunk_size=7, floor_scale=4, attn_scale=0.3,
        attention_bias=True, rope_parameters=dict(rope_type="llama3", rope_theta=1e4, factor=4.0, low_freq_factor=1.0,
                                                  high_freq_factor=1.0, original_max_position_embeddings=40)),
    "llama4_text-unlike": LLAMA4 | dict(no_rope_layers=[0, 1, 1, 1], layer_types=["full_attention"] * 2 + [
        "chunked_attention"] * 2, attention_chunk_size=5, use_qk_norm=False, attn_temperature_tuning=False),
    "llama4_text-as-published": LLAMA4 | dict(interleave_moe_layer_step=2),
    "cohere2_moe": COHERE | dict(num_shared_experts=2, mlp_layer_types=["dense", "sparse", "sparse", "sparse"],
                                 layer_types=TYPES[2:] + TYPES[1:3], prefix_dense_intermediate_size=56),
    "cohere2_moe-sum": COHERE | dict(num_shared_experts=1, layer_types=TYPES[:3] + TYPES[2:3], rms_norm_eps=0.02,
                                     shared_expert_combination_strategy="sum", expert_selection_fn="sigmoid",
                                     norm_topk_prob=False, tie_word_embeddings=True),
    "phimoe": SAME | dict(num_local_experts=6, num_experts_per_tok=2, router_jitter_noise=0.3, attention_bias=True,
                          lm_head_bias=True, sliding_window=9),
    "phimoe-long": SAME | dict(num_local_experts=6, num_experts_per_tok=2, attention_bias=True, rope_parameters=dict(
        rope_type="longrope", rope_theta=1e4, short_factor=[1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5], long_factor=[8.0] * 8,
        short_mscale=1.25, long_mscale=1.25, original_max_position_embeddings=40)),
    "glm4_moe": BASE | EXPERTS | dict(use_qk_norm=True, attention_bias=True, n_shared_experts=2,
                                      rope_parameters=ROPE | {"partial_rotary_factor": 0.5}),
    "dots1": BASE | EXPERTS | dict(n_shared_experts=1, norm_topk_prob=True, sliding_window=None),
    "afmoe": BASE | dict(
        num_hidden_layers=4, sliding_window=7, layer_types=TYPES, num_experts=6, num_experts_per_tok=2,
        moe_intermediate_size=24, num_shared_experts=2, num_dense_layers=1, route_scale=1.5, mup_enabled=True),
    "minicpm3": {k: v for k, v in (BASE | LATENT).items() if k != "head_dim"} | dict(
        scale_emb=3.0, scale_depth=1.5, dim_model_base=20),
    "laguna": BASE | dict(
        num_hidden_layers=4, sliding_window=7, layer_types=TYPES[2:] + TYPES[1:3], num_attention_heads_per_layer=[4, 6, 6, 4],
        num_experts=6, num_experts_per_tok=2, moe_intermediate_size=24, shared_expert_intermediate_size=40,
        moe_routed_scaling_factor=1.5, rope_parameters={
            "full_attention": dict(rope_type="yarn", rope_theta=5e5, factor=4.0, original_max_position_embeddings=40,
                                   partial_rotary_factor=0.5), "sliding_attention": ROPE}),
    "laguna-elements": BASE | dict(
        num_hidden_layers=3, gating="per-element", mlp_layer_types=["dense", "dense", "sparse"], num_experts=6,
        num_experts_per_tok=2, moe_intermediate_size=24, shared_expert_intermediate_size=24, rope_parameters={
            "full_attention": ROPE, "sliding_attention": ROPE}),
    "flex_olmo": SAME | dict(num_experts=5, num_experts_per_tok=2, norm_topk_prob=True),
    "hy_v3": BASE | dict(num_hidden_layers=3, num_experts=6, num_experts_per_tok=2, moe_intermediate_size=24,
                         num_shared_experts=2, router_scaling_factor=1.5),
    "sarvam_moe": {k: v for k, v in (BASE | EXPERTS).items() if k != "n_routed_experts"} | dict(
        num_experts=6, num_shared_experts=2, use_qkv_bias=True),
    "mellum": BASE | dict(
        num_hidden_layers=3, sliding_window=7, layer_types=TYPES[1:], num_local_experts=6, num_experts_per_tok=2,
        moe_intermediate_size=24, mlp_layer_types=["dense", "sparse", "sparse"], rope_parameters={
            "full_attention": ROPE | {"rope_theta": 1e5}, "sliding_attention": ROPE}),
    "mimo_v2_flash": MIMO | dict(sliding_window=7, layer_types=TYPES[2:] + TYPES[1:3], mlp_layer_types=[
        "dense", "sparse", "sparse", "dense"], rope_parameters={"full_attention": ROPE | {"partial_rotary_factor": 0.5},
                                                     "sliding_attention": ROPE | {"rope_theta": 1e3, "partial_rotary_factor": 0.5}}),
    "mimo_v2_flash-as-published": MIMO | dict(num_hidden_layers=6, head_dim=24, n_group=2, sliding_window_size=6, sliding_window=6,
                                              attention_bias=True, attention_value_scale=None, routed_scaling_factor=None),
    "dbrx": dict(vocab_size=64, d_model=64, n_heads=4, n_layers=2, max_seq_len=160, bos_token_id=1, eos_token_id=2,
                 attn_config=dict(kv_n_heads=2, clip_qkv=0.5, rope_theta=1e4), rope_parameters=ROPE,
                 ffn_config=dict(ffn_hidden_size=40, moe_num_experts=6, moe_top_k=2)),
    "persimmon": {k: v for k, v in SAME.items() if k not in ("num_key_value_heads", "rms_norm_eps")} | dict(
        layer_norm_eps=0.02, hidden_act="relu2", rope_parameters=ROPE | {"partial_rotary_factor": 0.5}),
    "minimax_m2": BASE | dict(num_local_experts=6, num_experts_per_tok=2, intermediate_size=24,
                              rope_parameters=ROPE | {"partial_rotary_factor": 0.5}),
    "minimax": SAME | MINIMAX | dict(
        head_dim=12, layer_types=["linear_attention", "full_attention", "linear_attention", "linear_attention"],
        linear_attn_alpha_factor=3.1, linear_attn_beta_factor=1.2, full_attn_alpha_factor=1.7, full_attn_beta_factor=0.8,
        mlp_alpha_factor=2.3, mlp_beta_factor=0.7),
    "minimax-alike": SAME | MINIMAX | dict(num_attention_heads=6, head_dim=16, layer_types=None, **dict.fromkeys(
        ("linear_attn_alpha_factor", "full_attn_alpha_factor", "mlp_alpha_factor"), 1.75)),
    "ernie4_5_moe": SAME | dict(num_hidden_layers=3, moe_num_experts=6, moe_k=2, moe_intermediate_size=24,
                                moe_num_shared_experts=2, moe_layer_start_index=1),
    "glm4_moe_lite": BASE | EXPERTS | LATENT | dict(n_shared_experts=1, norm_topk_prob=True, mlp_layer_types=[
        "dense", "sparse", "sparse"], first_k_dense_replace=0, rms_norm_eps=1e-6),
    "solar_open": {k: v for k, v in (BASE | EXPERTS).items() if k not in ("first_k_dense_replace", "intermediate_size")}
    | dict(n_shared_experts=1, norm_topk_prob=True),
    "exaone_moe": BASE | dict(num_hidden_layers=4, sliding_window=7, layer_types=TYPES, num_experts=6,
                              num_experts_per_tok=2, moe_intermediate_size=24, num_shared_experts=2, n_group=1,
                              topk_group=1, first_k_dense_replace=1, routed_scaling_factor=1.5),
    "youtu": BASE | LATENT,
    "hyperclovax": SAME | GRANITE | dict(head_dim=16, attention_bias=True),
    "cwm": BASE | dict(sliding_window=7, layer_types=TYPES[1:3], rope_parameters=dict(
        rope_type="llama3", rope_theta=1e4, factor=4.0, low_freq_factor=1.0, high_freq_factor=4.0,
        original_max_position_embeddings=40)),
    "jais2": {k: v for k, v in BASE.items() if k != "rms_norm_eps"} | dict(layer_norm_eps=0.02),
    "lfm2": {k: v for k, v in SAME.items() if k != "rms_norm_eps"} | dict(
        norm_eps=0.02, num_hidden_layers=3, conv_L_cache=3, block_multiple_of=8, block_ffn_dim_multiplier=1.5,
        layer_types=["conv", "full_attention", "conv"]),
    "lfm2_moe": {k: v for k, v in SAME.items() if k != "rms_norm_eps"} | dict(
        norm_eps=0.02, num_hidden_layers=4, conv_L_cache=4, num_experts=5, num_experts_per_tok=2, num_dense_layers=1,
        moe_intermediate_size=24, routed_scaling_factor=1.5, layer_types=["conv", "conv", "full_attention", "conv"]),
    "lfm3": {k: v for k, v in BASE.items() if k != "rms_norm_eps"} | dict(
        norm_eps=0.02, num_hidden_layers=4, conv_L_cache=4, sliding_window=7,
        layer_types=["conv", "full_attention", "sliding_attention", "conv"], rope_parameters={
            "full_attention": dict(rope_type="proportional", rope_theta=1e5, partial_rotary_factor=0.5),
            "sliding_attention": ROPE}),
    "qwen3_next": BASE | DELTA | dict(num_experts=5, num_experts_per_tok=2, moe_intermediate_size=24,
                                      shared_expert_intermediate_size=40),
    "qwen3_5_text": BASE | DELTA,
    "qwen3_5_moe": dict(text_config=BASE | DELTA | dict(
        num_experts=5, num_experts_per_tok=2, moe_intermediate_size=24, shared_expert_intermediate_size=40,
        rope_parameters=ROPE | {"partial_rotary_factor": 0.25, "mrope_section": [1, 1, 0], "mrope_interleaved": True}),
        vision_config=VISION | dict(num_position_embeddings=16)),
    "olmo_hybrid": OLMO_HYBRID | dict(rope_parameters={"rope_type": "default", "rope_theta": None}),
    "olmo_hybrid-unlike": OLMO_HYBRID | dict(linear_allow_neg_eigval=False, linear_conv_kernel_dim=3, layer_types=[
        "full_attention"] + ["linear_attention"] * 2 + ["full_attention"]),
    "kimi_linear": KIMI | dict(linear_attn_config=dict(
        full_attn_layers=[2, 4], kda_layers=[1, 3], head_dim=12, num_heads=4, short_conv_kernel_size=4)),
    "kimi_linear-types": KIMI | dict(
        q_lora_rank=20, linear_head_dim=20, linear_num_heads=3, linear_conv_kernel_dim=3, norm_topk_prob=False,
        layer_types=["linear_attention", "full_attention", "linear_attention", "linear_attention"],
        mlp_layer_types=["dense", "sparse", "dense", "sparse"]),
    "bailing_hybrid": LING | dict(num_hidden_layers=5, layer_group_size=2, layer_types=[
        "linear_attention", "full_attention", "linear_attention", "full_attention", "full_attention"]),
    "bailing_hybrid-unbounded": LING | dict(
        num_hidden_layers=3, layer_group_size=3, q_lora_rank=None, kda_safe_gate=False, first_k_dense_replace=0),
    "falcon_h1": FALCON | dict(
        mlp_multipliers=[0.7, 0.4], ssm_multipliers=[0.8, 1.3, 0.6, 1.4, 0.9], ssm_in_multiplier=1.25, ssm_out_multiplier=0.3,
        attention_in_multiplier=1.1, attention_out_multiplier=0.6, key_multiplier=0.8, embedding_multiplier=2.5,
        lm_head_multiplier=0.35),
    "falcon_h1-normed": FALCON | dict(mamba_rms_norm=True, mamba_norm_before_gate=False),
    "falcon_h1-normed-first": FALCON | dict(mamba_rms_norm=True, mamba_expand=1, mamba_n_heads=4, mamba_d_ssm=None),
    "bamba": SAME | dict(
        num_hidden_layers=3, attn_layer_indices=[1], mamba_n_heads=8, mamba_d_head=16, mamba_expand=2,
        mamba_n_groups=2, mamba_d_state=12, mamba_d_conv=4, mlp_bias=True),
    "granitemoehybrid-mamba": SAME | GRANITE | MAMBA | dict(
        num_local_experts=0, num_experts_per_tok=0, shared_intermediate_size=40, mamba_conv_bias=False),
    "granitemoehybrid-experts": SAME | GRANITE | MAMBA | dict(
        position_embedding_type="rope", num_local_experts=5, num_experts_per_tok=2, intermediate_size=24,
        shared_intermediate_size=40),
    "nemotron_h": NEMOTRON | dict(layers_block_type=["linear_attention", "mlp", "full_attention", "linear_attention"]),
    "nemotron_h-experts": NEMOTRON | dict(
        layers_block_type=["linear_attention", "moe", "full_attention", "moe", "linear_attention"], n_routed_experts=6,
        moe_intermediate_size=24, moe_shared_expert_intermediate_size=40, num_experts_per_tok=2,
        routed_scaling_factor=1.5, n_group=2, topk_group=1),
    "mamba": STATES | dict(time_step_rank=5),
    "mamba-no-bias": STATES | dict(use_conv_bias=False, tie_word_embeddings=False, expand=3),
    "falcon_mamba": STATES | dict(mixer_rms_eps=0.02),
    "falcon_mamba-epsilon": STATES | dict(mixer_rms_eps=0.3, tie_word_embeddings=False),
    "jamba": JAMBA | dict(num_experts=5, num_experts_per_tok=2, expert_layer_period=2, expert_layer_offset=1),
    "jamba-dense": JAMBA | dict(num_experts=1, num_experts_per_tok=1, mamba_conv_bias=False, mamba_dt_rank=5),
    "mamba2": STATES | dict(num_heads=6, head_dim=16, n_groups=2, residual_in_fp32=False),
    "vaultgemma": BASE | dict(query_pre_attn_scalar=20, sliding_window=7, attn_logit_softcapping=4.0,
                              final_logit_softcapping=3.0, hidden_activation="gelu_pytorch_tanh",
                              layer_types=TYPES[1:3]),
    "gemma3n_text": BASE | dict(
        num_hidden_layers=7, layer_types=TYPES[:3] + TYPES[1:3] + TYPES[1:3], num_kv_shared_layers=3, sliding_window=7,
        pad_token_id=0, intermediate_size=[56, 40, 64, 56, 56, 40, 56], hidden_size_per_layer_input=8,
        vocab_size_per_layer_input=60, altup_num_inputs=3, laurel_rank=12, final_logit_softcapping=3.0,
        activation_sparsity_pattern=[0.9, 0.6, 0.2, 0.0, 0.95, 0.0, 0.0], rope_parameters={
            "full_attention": ROPE, "sliding_attention": ROPE | {"rope_theta": 1e3}}),
    "gemma4_text": GEMMA4 | dict(
        num_hidden_layers=7, layer_types=TYPES[:3] + TYPES[1:3] + TYPES[1:3], num_kv_shared_layers=3,
        hidden_size_per_layer_input=8, use_double_wide_mlp=True, attention_k_eq_v=True,
        num_global_key_value_heads=1, final_logit_softcapping=3.0),
    "gemma4_text-experts": GEMMA4 | dict(
        num_hidden_layers=3, layer_types=TYPES[:3], hidden_size_per_layer_input=0, enable_moe_block=True,
        num_experts=6, top_k_experts=2, moe_intermediate_size=24, attention_bias=True),
    "gemma4": dict(
        text_config=GEMMA4 | dict(model_type="gemma4_text", layer_types=TYPES[1:3], hidden_size_per_layer_input=8),
        vision_config=dict(hidden_size=32, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2,
                           num_key_value_heads=2, head_dim=16, position_embedding_size=16),
        audio_config=None),
    "gemma4_unified": dict(
        text_config=GEMMA4 | dict(model_type="gemma4_unified_text", layer_types=TYPES[1:3], attention_k_eq_v=True,
                                  num_global_key_value_heads=1),
        vision_config=dict(mm_embed_dim=32, mm_posemb_size=16, output_proj_dims=32), audio_config=None),
    "nomic_bert": dict(vocab_size=64, hidden_size=48, intermediate_size=56, num_hidden_layers=2, num_attention_heads=3,
                       max_position_embeddings=160, layer_norm_eps=0.02, type_vocab_size=2),
    "eurobert": BASE | dict(mask_token_id=3),
    "jina_embeddings_v3": dict(
        vocab_size=64, hidden_size=48, intermediate_size=56, num_hidden_layers=2, num_attention_heads=3,
        max_position_embeddings=160, layer_norm_eps=0.02, type_vocab_size=1),
    "gte": dict(vocab_size=64, hidden_size=48, intermediate_size=56, num_hidden_layers=2, num_attention_heads=3,
                max_position_embeddings=160, layer_norm_eps=0.02, type_vocab_size=1),
    "deberta-v2": DEBERTA,
    "deberta-v2-linear": DEBERTA | dict(position_buckets=-1, max_relative_positions=9, norm_rel_ebd="none", type_vocab_size=2),
    "gemma3_text-both": BASE | dict(
        num_hidden_layers=3, sliding_window=8, layer_types=TYPES[1:], use_bidirectional_attention=True,
        query_pre_attn_scalar=16, rope_parameters={"full_attention": ROPE, "sliding_attention": ROPE | {"rope_theta": 1e3}}),
    "roberta-pad": dict(vocab_size=64, hidden_size=48, intermediate_size=56, num_hidden_layers=2, num_attention_heads=3,
                        max_position_embeddings=40, layer_norm_eps=0.02, type_vocab_size=1, pad_token_id=2),
    "camembert": BERT | dict(type_vocab_size=1, pad_token_id=1),
    "data2vec-text": BERT | dict(type_vocab_size=1, pad_token_id=1, model_type="data2vec-text"),
    "roberta-prelayernorm": BERT | dict(type_vocab_size=2, pad_token_id=1, model_type="roberta-prelayernorm"),
    "xlm-roberta-xl": BERT | dict(type_vocab_size=1, pad_token_id=1, model_type="xlm-roberta-xl"),
    "distilbert": dict(vocab_size=64, dim=48, hidden_dim=56, n_layers=2, n_heads=3, max_position_embeddings=40),
    "mpnet": BERT | dict(pad_token_id=1),
    "ernie": BERT,
    "megatron-bert": BERT | dict(model_type="megatron-bert", hidden_act="gelu_new"),
    "roformer": BERT | dict(num_attention_heads=4),
    "roformer-narrow": BERT | dict(num_attention_heads=4, embedding_size=20),
    "electra": BERT | dict(embedding_size=20),
    "electra-wide": BERT | dict(embedding_size=48),
    "albert": BERT | dict(embedding_size=20, num_hidden_layers=3),
    "modernbert-decoder": MODERN | dict(
        model_type="modernbert-decoder", local_attention=10, norm_bias=True, attention_bias=True, mlp_bias=True, classifier_bias=True),
    "modernbert-decoder-plain": MODERN | dict(
        model_type="modernbert-decoder", local_attention=14, tie_word_embeddings=False, decoder_bias=False,
        layer_types=TYPES),
    "qwen2_5_vl": dict(text_config=SAME | dict(rope_parameters=AXES), vision_config=VISION | dict(out_hidden_size=64)),
    "qwen3_vl": dict(text_config=BASE | dict(rope_parameters=AXES),
                     vision_config=VISION | dict(num_position_embeddings=16, deepstack_visual_indexes=[0])),
    "qwen3_vl_moe": dict(text_config=BASE | dict(rope_parameters=AXES, num_experts=4, num_experts_per_tok=2,
                                                 moe_intermediate_size=24),
                         vision_config=VISION | dict(num_position_embeddings=16, deepstack_visual_indexes=[0])),
    "mllama": dict(text_config=BASE | dict(hidden_size=64, num_hidden_layers=4, cross_attention_layers=[1, 3], pad_token_id=0),
                   vision_config=dict(hidden_size=32, intermediate_size=32, num_hidden_layers=1, num_global_layers=1,
                                      attention_heads=2, vision_output_dim=64, image_size=28, patch_size=14, max_num_tiles=1,
                                      intermediate_layers_indices=[0], supported_aspect_ratios=[[1, 1]])),
    "glm4v": dict(text_config=SAME | dict(rope_parameters=AXES | {"partial_rotary_factor": 0.5, "mrope_section": [1, 1, 2]}),
                  vision_config=VISION | dict(out_hidden_size=64, image_size=28)),
    "glm4v_moe": dict(text_config=BASE | EXPERTS | dict(rope_parameters=AXES | {"partial_rotary_factor": 0.5, "mrope_section": [1, 1, 2]}),
                      vision_config=VISION | dict(image_size=28)),
    "paddleocr_vl": dict(text_config=BASE | dict(rope_parameters=AXES | {"mrope_section": [2, 3, 3]}, use_bias=True), vision_config=dict(
        hidden_size=32, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2, image_size=28, patch_size=14)),
    "glm_ocr": dict(text_config=BASE | dict(rope_parameters=AXES | {"mrope_section": [2, 3, 3]}),
                    vision_config=VISION | dict(image_size=28)),
    "hunyuan_vl": dict(text_config=BASE | dict(rope_parameters=AXES | {"rope_type": "dynamic", "alpha": 3.0, "factor": 1.0}),
                       vision_config=dict(hidden_size=32, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2,
                                          text_hidden_size=48, out_hidden_size=48)),
    "qwen2_5_omni_thinker": dict(text_config=SAME | dict(rope_parameters=AXES), vision_config=VISION | dict(out_hidden_size=64),
                                 audio_config=dict(d_model=32, encoder_layers=1, encoder_attention_heads=2, encoder_ffn_dim=32,
                                                   output_dim=64)),
    "qwen3_omni_moe_thinker": dict(
        text_config=BASE | dict(rope_parameters=AXES | {"mrope_interleaved": True}, num_experts=4, num_experts_per_tok=2,
                                moe_intermediate_size=24),
        vision_config=VISION | dict(num_position_embeddings=16, deepstack_visual_indexes=[0]),
        audio_config=dict(d_model=32, encoder_layers=1, encoder_attention_heads=2, encoder_ffn_dim=32, output_dim=48)),
    "deepseek_ocr2": dict(
        text_config=SAME | dict(num_key_value_heads=4, n_routed_experts=6, n_shared_experts=2, num_experts_per_tok=2,
                                moe_intermediate_size=24, mlp_layer_types=["dense", "sparse"], routed_scaling_factor=1.5),
        vision_config=dict(
            sam_config=dict(hidden_size=32, num_hidden_layers=1, num_attention_heads=2, output_channels=8, global_attn_indexes=[0]),
            encoder_config=dict(hidden_size=32, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=2,
                                intermediate_size=32))),
    "granite_docling": dict(
        text_config=SAME | GRANITE, vision_config=dict(
            hidden_size=32, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2, image_size=28, patch_size=14,
            out_hidden_size=64, deepstack_visual_indexes=[0], scale_factor=2)),
    "phi4_multimodal": {k: v for k, v in SAME.items() if k != "rope_parameters"} | dict(
        pad_token_id=0, original_max_position_embeddings=40, rope_parameters=dict(
            rope_type="longrope", rope_theta=1e4, short_factor=[1.0 + i / 4 for i in range(8)], long_factor=[8.0] * 8,
            original_max_position_embeddings=40),
        vision_config=dict(hidden_size=32, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2, image_size=28,
                           patch_size=14),
        audio_config=dict(hidden_size=32, intermediate_size=32, num_blocks=1, num_attention_heads=2,
                          ext_pw_out_channel=32, nemo_conv_channels=32)),
    "nanbeige": BASE | dict(num_loops=3),
    "nanbeige-unnormed": BASE | dict(num_loops=2, skip_loop_final_norm=True),
    "muse_glimmer": dict(
        text_config=BASE | dict(num_hidden_layers=4, sliding_window=7, final_logit_softcapping=3.0, qk_scale_factor=1.7,
                                output_multiplier=0.6, post_norm_eps=0.3),
        vision_config=dict(hidden_size=32, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2),
        out_hidden_size=128, projector_hidden_size=32),
    "muse_glimmer-as-published": dict(
        text_config=BASE | dict(num_hidden_layers=5, sliding_window=7),
        vision_config=dict(hidden_size=32, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2),
        out_hidden_size=128, projector_hidden_size=32),
    "apertus1p5_text": BASE | dict(hidden_act="xielu", output_vocab_size=50),
    "aria_text": SAME | dict(moe_num_experts=6, moe_topk=2, intermediate_size=24),
    "flint": BASE | dict(num_hidden_layers=4, sliding_window=7, layer_types=TYPES, mlp_only_layers=[0], num_experts=6,
                         num_experts_per_tok=2, moe_intermediate_size=24, shared_expert_intermediate_size=40),
    "flint-as-published": BASE | dict(num_hidden_layers=5, sliding_window=7, num_experts=6, num_experts_per_tok=2,
                                      moe_intermediate_size=24, shared_expert_intermediate_size=40, norm_topk_prob=False),
    "step3p7": dict(
        text_config=BASE | dict(
            num_hidden_layers=4, sliding_window=7, layer_types=TYPES[2:] + TYPES[1:3], mlp_layer_types=["dense"] + ["sparse"] * 3,
            num_sliding_attention_heads=6, n_routed_experts=6, num_experts_per_tok=2, moe_intermediate_size=24, share_expert_dim=40,
            moe_router_scaling_factor=1.5, swiglu_limits=[None, 0.3, 0.0, 0.2], swiglu_limits_shared=[0.4, 0.3, None, 0.0],
            pad_token_id=0, rope_parameters={"full_attention": dict(
                rope_type="llama3", rope_theta=5e5, partial_rotary_factor=0.5, factor=4.0, low_freq_factor=1.0,
                high_freq_factor=4.0, original_max_position_embeddings=40),
                                             "sliding_attention": ROPE}),
        vision_config=dict(hidden_size=32, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2, image_size=28,
                           patch_size=14, max_position_embeddings=4)),
    "smolvlm": dict(text_config=BASE | dict(model_type="llama", pad_token_id=0), vision_config=dict(
        hidden_size=32, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2, image_size=28, patch_size=14)),
    "mistral3": dict(text_config=BASE | dict(model_type="mistral", sliding_window=None), vision_config=PIXTRAL),
    "mistral3-mistral4": dict(text_config={k: v for k, v in (BASE | EXPERTS | LATENT).items() if k != "head_dim"} | dict(
        model_type="mistral4", n_shared_experts=1, rms_norm_eps=1e-6, rope_parameters=dict(
            type="yarn", rope_type="yarn", rope_theta=1e4, factor=4.0, original_max_position_embeddings=7, beta_fast=32.0,
            beta_slow=1.0, mscale=1.0, mscale_all_dim=1.0, llama_4_scaling_beta=0.1, partial_rotary_factor=0.4)),
        vision_config=PIXTRAL),
    "mbart": PAIR | dict(scale_embedding=True, decoder_start_token_id=2),
    "plbart": PAIR,
    "pegasus": PAIR | dict(scale_embedding=True),
    "m2m_100": PAIR | dict(pad_token_id=1),
}
IMAGES = ("visual.", "vision_tower.", "vision_model.", "mlp_AR.", "multi_modal_projector.", "model.visual.", "model.vision_tower.",
          "model.multi_modal_projector.", "model.vision_model.", "model.connector.", "model.embed_vision.", "model.vision_embedder.",
          "audio_tower.", "vit.", "vit_large_projector.", "model.vision_adapter.", "model.vision_projection.",
          "model.embed_tokens_extend.", "model.sam_model.", "model.qwen2_model.", "model.projector.", "model.view_seperator")


CONSTANTS = ("act_fn.beta", "act_fn.eps", "roformer.encoder.embed_positions.weight", "slope_rate", "query_decay", "key_decay",
             "diagonal_decay")


FLOAT32 = torch.float32, torch.Tensor.float


class Normed(torch.nn.Module):
    def __init__(self, layer, norm):
        super().__init__()
        self.layer, self.norm = layer, norm

    def forward(self, x, **others):
        return self.norm(self.layer(x, **others))


def repeated(model, loops, normed):
    """Nanbeige 4.2, whose class transformers has not: a Llama that runs its layers so often, normed between."""
    layers = list(model.model.layers)
    run = layers[:-1] + [Normed(layers[-1], model.model.norm) if normed else layers[-1]]
    model.model.layers = torch.nn.ModuleList(run * (loops - 1) + layers)
    model.config.num_hidden_layers *= loops



def made(name, fields):
    kind = (AutoModelForSeq2SeqLM if "decoder_layers" in fields else
            AutoModelForImageTextToText if "vision_config" in fields and name != "phi4_multimodal" else
            AutoModelForMaskedLM if re.search("bert(?!-decoder)|jina|^(gte|ernie$|data2vec|roformer|mpnet|electra)", name) else AutoModelForCausalLM)
    fields = dict(fields)
    loops = {key: fields.pop(key) for key in ("num_loops", "skip_loop_final_norm") if key in fields}
    if loops:
        fields["model_type"] = "llama"
    config = AutoConfig.for_model(fields.pop("model_type", name.split("-")[0]), **fields)
    with tempfile.TemporaryDirectory() as folder:
        kind.from_config(config).save_pretrained(folder)
        path = folder + "/model.safetensors"
        tensors = load_file(path)
        constants = [key for key in tensors if key.endswith(CONSTANTS) or (name == "pegasus" and "embed_positions" in key)]
        tensors = {key: array if key in constants else values(key, array.shape) for key, array in tensors.items()}
        save_file(tensors, path, {"format": "pt"})
        model = kind.from_pretrained(folder, dtype=torch.float64, attn_implementation="eager").eval()
        for part in (model.config, model.config.get_text_config()):
            part._experts_implementation = "eager"
        saved = json.load(open(folder + "/config.json")) | loops | ({"model_type": "nanbeige"} if loops else {})
        if loops:
            repeated(model, loops["num_loops"], not loops.get("skip_loop_final_norm"))
        torch.set_default_dtype(torch.float64)  # of constants that some classes make as they run
        # What classes compute in float32 whatever the weights are.
        torch.float32, torch.Tensor.float = torch.float64, torch.Tensor.double
        with torch.no_grad():
            source = {"input_ids": torch.tensor([SOURCE])} if kind is AutoModelForSeq2SeqLM else {}
            logits = model(**{("decoder_" if source else "") + "input_ids": torch.tensor([IDS])}, **source, **({"use_cache": False} if loops else {})).logits[0].numpy()
        torch.float32, torch.Tensor.float = FLOAT32
        torch.set_default_dtype(torch.float32)
    for other in ("vision_config", "audio_config", "transformers_version", "dtype", "architectures"):
        saved.pop(other, None)
    return {"name": name, "config": saved, "ids": IDS, **({"source": SOURCE} if source else {}),
            "tensors": {k: list(v.shape) for k, v in tensors.items() if not k.startswith(IMAGES) and k not in constants},
            "logits": logits_of(logits)}


if __name__ == "__main__":
    with open(sys.argv[1], "w") as out:
        for each, fields in CONFIGS.items():
            out.write(json.dumps(made(each, fields), separators=(",", ":")) + "\n")
