"""The articles that claims come from, as far as they are known."""

CONTEXT = "popular article on FlashAttention for contexts of 100k tokens"
CODE = "popular article with code for FlashAttention-2"
AWARE = "popular article on IO-aware attention"
TECHNIQUES = "popular article on FlashAttention's techniques"
LENGTHS = "popular article on attention from 4K to 128K tokens"
