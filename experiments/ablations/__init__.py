"""Ablation studies."""
