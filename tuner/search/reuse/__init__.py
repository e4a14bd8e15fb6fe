"""Tuning by reuse: ETO (Fang et al., PVLDB 15(2), 2022), as far as it needs no machine."""
