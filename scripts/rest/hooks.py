"""Tells schemathesis the ids that exist on this server, so that not every response is 401 or 404."""

import json
import os

import schemathesis

KNOWN = json.loads(os.environ["PLANTROOM_TESTER_IDS"])


@schemathesis.hook
def before_load_schema(context, raw_schema):
    """Adds existing ids to the generated ones. There is only one organization id."""
    for path, operations in raw_schema["paths"].items():
        for operation in operations.values():
            for parameter in operation.get("parameters", []):
                if "name" in parameter:
                    prefer_known(parameter, parameter["name"], path)
    for schema in raw_schema["components"]["schemas"].values():
        if schema.get("additionalProperties") is False:
            for name, field in schema["properties"].items():
                if name == "organizationId":
                    field.clear()
                    field["enum"] = [KNOWN["organizationId"], None]


def prefer_known(parameter, name, path):
    if name == "organizationId":
        parameter["schema"] = {"const": KNOWN[name]}
        return
    collection = path.split("/{id}")[0] if name == "id" else name
    if collection in KNOWN:
        parameter["schema"] = {"anyOf": [{"const": KNOWN[collection]}, parameter["schema"]]}
        parameter["example"] = KNOWN[collection]
