"""What must always hold, asked after every write about what it touched. Each breach is a sentence.

Checks know the objects as they are stored and nothing of how decisions were made.
"""
