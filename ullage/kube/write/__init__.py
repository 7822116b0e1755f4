"""Writers: facts and intents to bodies of API objects. Nothing is sent here."""
