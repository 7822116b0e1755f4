"""Where a pod goes: fit rules, devices and scores brought together into one answer. No rule of its own."""
