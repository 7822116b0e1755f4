"""The rules of each built-in kind: defaults, admission, validation, what may change. One file per family of kinds."""
