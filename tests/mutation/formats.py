"""Guards of the formats of records."""

from tests.mutation.guard import NEVER, Guard

STRICT = ("tests/unit/schemas/test_avro.py",)
REGISTRY = ("tests/unit/engine/test_registry.py",)
EVENTS = ("tests/unit/schemas/test_cloud_events.py", "tests/unit/engine/test_cloud_events.py")

PROTOBUF = ("tests/unit/schemas/test_protobuf.py",)
JSON_SCHEMA = ("tests/unit/schemas/test_json_schema.py",)

PINNED = ("tests/unit/engine/test_pinned_schema.py",)
LATEST = ("tests/unit/cli/test_newest.py",)
LOGIN = ("tests/unit/config/test_registry.py",)
VERSIONS = ("tests/unit/cli/test_registry_versions.py",)

GUARDS = (
    Guard(
        "a restart keeps the version that the deployment chose",
        "streams/cli/newest.py",
        "        return settled_app(app, catalogue.read(store, app.name))",
        "        return app",
        LATEST,
    ),
    Guard(
        "a start that lost the race takes the version of the other",
        "streams/operations/deploying.py",
        "        current = app if options.again else settled_app(app, found)",
        "        current = app",
        LATEST,
    ),
    Guard(
        "a worker of the same file goes on under the version that was chosen later",
        "streams/engine/following.py",
        "    digest = rule_of(settled(agent, deployed)).digest",
        "    digest = rule_of(agent).digest",
        LATEST,
    ),
    Guard(
        "a version of another subject is not taken",
        "streams/rules/versions.py",
        "    return agent if own.subject_read != known.subject_read else replace(",
        "    return replace(",
        LATEST,
    ),
    Guard(
        "a pinned schema that is not known makes no dead letter",
        "schemas/pinned.py",
        '        raise Unavailable(f"the schema {options.pinned} is not known: {error}") from None',
        '        raise msgspec.DecodeError(f"the schema {options.pinned} is not known: {error}") from None',
        PINNED,
    ),
    Guard(
        "a pinned schema that is none makes no dead letter",
        "schemas/pinned.py",
        '                raise Unavailable(f"the schema {options.pinned} {error}") from None',
        '                raise msgspec.DecodeError(f"the schema {options.pinned} {error}") from None',
        PINNED,
    ),
    Guard(
        "a record of another message is undecodable",
        "schemas/protobuf.py",
        "        if found != descriptor.full_name:",
        f"        {NEVER}",
        PROTOBUF,
    ),
    Guard(
        "the schema of the id says which message it is",
        "schemas/protobuf.py",
        "        if not by_id or id == (options.schema_id or 0):",
        "        if True:",
        PROTOBUF,
    ),
    Guard(
        "a record without a required field is undecodable",
        "schemas/protobuf.py",
        "                if not found.IsInitialized():",
        f"                {NEVER}",
        PROTOBUF,
    ),
    Guard(
        "an error of Protobuf quotes no payload",
        "schemas/protobuf.py",
        "    if found and isinstance(value, dict) and found[1] in value:",
        "    if found:",
        PROTOBUF,
    ),
    Guard(
        "a group of a .proto file is a message", "schemas/protobuf_schema.py", ' or token == "group":', ":", PROTOBUF
    ),
    Guard(
        "a 64-bit integer is a number",
        "schemas/protobuf_values.py",
        "        return _finite if field.type in (field.TYPE_DOUBLE, field.TYPE_FLOAT) else _same",
        "        return _finite if field.type in (field.TYPE_DOUBLE, field.TYPE_FLOAT) else str",
        PROTOBUF,
    ),
    Guard(
        "a field with presence that is not set does not exist",
        "schemas/protobuf_values.py",
        " if not presence or has(name)",
        " if True",
        PROTOBUF,
    ),
    Guard(
        "what is read is valid",
        "schemas/json_schema.py",
        "        if wrong is not None and (why := wrong(found)):",
        f"        {NEVER}",
        JSON_SCHEMA,
    ),
    Guard(
        "a JSON record of an id that the registry does not know is undecodable",
        "schemas/json_schema.py",
        "        if id not in known:",
        "        known.setdefault(id, own)\n        if id not in known:",
        JSON_SCHEMA,
    ),
    Guard(
        "without a schema, JSON is validated with the schema of its id",
        "schemas/json_schema.py",
        "            known[id] = writer if by_writer else own",
        "            known[id] = own",
        JSON_SCHEMA,
    ),
    Guard(
        "what is written is valid",
        "schemas/json_schema.py",
        "        if own is not None and (why := own(json.decode_any(found))):",
        f"        {NEVER}",
        JSON_SCHEMA,
    ),
    Guard(
        "no schema is fetched",
        "schemas/json_schema.py",
        "    check = kind(schema, registry=Registry())",
        "    check = kind(schema)",
        JSON_SCHEMA,
    ),
    Guard(
        "a negative branch of a union is undecodable",
        "schemas/avro_strict.py",
        "        if not 0 <= index < most:",
        "        if index >= most:",
        STRICT,
    ),
    Guard(
        "a negative symbol of an enum is undecodable",
        "schemas/avro_strict.py",
        "        if not 0 <= index < symbols:",
        "        if index >= symbols:",
        STRICT,
    ),
    Guard("an int has 32 bits", "schemas/avro_strict.py", "    if found >> bits:", f"    {NEVER}", STRICT),
    Guard("a number ends", "schemas/avro_strict.py", "        if shift >= bits:", f"        {NEVER}", STRICT),
    Guard("a boolean is 0 or 1", "schemas/avro_strict.py", "    if value[at] > 1:", f"    {NEVER}", STRICT),
    Guard(
        "a time of day is not negative",
        "schemas/avro_strict.py",
        "        if not 0 <= found < day:",
        "        if found >= day:",
        STRICT,
    ),
    Guard("a decimal has a byte", "schemas/avro_strict.py", "    if value[at] == 0:", f"    {NEVER}", STRICT),
    Guard(
        "a registry that is away makes no dead letter",
        "streams/aggregation/accept.py",
        "    if isinstance(error, Unavailable):",
        f"    {NEVER}",
        REGISTRY,
    ),
    Guard(
        "a version that lacks a required field is found",
        "streams/cli/versions.py",
        " if default and free}",
        " if free}",
        VERSIONS,
    ),
    Guard(
        "a worker that starts again has the client credentials that the file names now",
        "streams/config/secrets.py",
        "token=known.token, oauth=known.oauth)",
        "token=known.token)",
        LOGIN,
    ),
    Guard(
        "client credentials in the file are warned of",
        "streams/config/loading.py",
        '("password", "token", "client_secret")',
        '("password", "token")',
        LOGIN,
    ),
    Guard(
        "tokens of the registry are asked for with TLS",
        "streams/config/transport.py",
        "    if registry.auth is not None and registry.auth.token_url is not None:",
        f"    {NEVER}",
        LOGIN,
    ),
    Guard(
        "a start is refused for an expression that the pinned schema types differently",
        "streams/cli/registry.py",
        '        yield from (f"{text}; {hint}" for text, hint in versions.mistyped(agent, schema))',
        "        pass",
        VERSIONS,
    ),
    Guard(
        "check --connect finds an expression that the pinned schema types differently",
        "streams/cli/versions.py",
        "        if not each.is_warning:",
        f"        {NEVER}",
        VERSIONS,
    ),
    Guard(
        "a Protobuf field of another type is found",
        "streams/config/record_types.py",
        '    if options is not None and options.schema and agent.format == "protobuf":',
        f"    {NEVER}",
        ("tests/unit/config/test_protobuf_types.py",),
    ),
    Guard(
        "a replay knows the schemas of the rows",
        "streams/cli/registry.py",
        "            known.table.learn(view.claim.source.schemas)",
        "            pass",
        PINNED,
    ),
    Guard(
        "the row keeps the schemas that were needed",
        "streams/ownership/registered.py",
        "        return replace(before, schemas=",
        "        return source\n        return replace(before, schemas=",
        REGISTRY,
    ),
    Guard(
        "the first commit of a claim keeps the schemas of the row",
        "streams/ownership/beginning.py",
        "    schemas = known.schemas if known else ()",
        "    schemas = ()",
        REGISTRY,
    ),
    Guard(
        "a claim takes the schemas of the row",
        "streams/ownership/registered.py",
        "        self.table.learn(",
        "        list(",
        REGISTRY,
    ),
    Guard(
        "no record is read before the ids of the outputs are known",
        "streams/ownership/registered.py",
        "            for avro in self._written:",
        "            for avro in ():",
        REGISTRY,
    ),
    Guard(
        "an id in a header is that of the value",
        "streams/aggregation/events_read.py",
        "    if groups.rule.header_ids:",
        f"    {NEVER}",
        REGISTRY,
    ),
    Guard(
        "a record that lacks a mandatory attribute is no event",
        "schemas/cloud_events.py",
        "        if not isinstance(found, str) or not found:",
        "        if False:",
        EVENTS,
    ),
    Guard(
        "data of an event that is declared as JSON is JSON",
        "schemas/cloud_events.py",
        '        well_formed(value)\n        return encode({**attributes, "data": msgspec.Raw(value)})',
        '        return encode({**attributes, "data": msgspec.Raw(value)})',
        EVENTS,
    ),
    Guard(
        "an event that was read keeps no headers of the other mode",
        "schemas/cloud_events.py",
        "    return [*others(headers), (CONTENT_TYPE, STRUCTURED.encode())]",
        "    return [*headers, (CONTENT_TYPE, STRUCTURED.encode())]",
        EVENTS,
    ),
    Guard(
        "the headers of Kafka Connect are in the dead letter",
        "streams/outbox/rows.py",
        '        if self._agent.dead_headers == "connect":',
        f"        {NEVER}",
        ("tests/unit/engine/test_connect_headers.py",),
    ),
)
