// Checks the compatibility of proto options, which buf does not compare: routes and scopes of methods, statuses, and
// field rules. `node scripts/protos/promises.mjs RELEASED NOW` compares two images and prints one line per incompatible
// change; exit code 1 if there is one.
import { createFileRegistry, fromBinary, getOption, hasOption } from '@bufbuild/protobuf';
import { FileDescriptorSetSchema } from '@bufbuild/protobuf/wkt';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const OURS = 'plantroom.v1.';
// Third-party protos, as in buf.yaml.
const FOREIGN = /^(google|grpc|chirpstack)\//;
// The bounds of FieldRules: proto name -> property name.
const LOWER_BOUNDS = { min_length: 'minLength', min: 'min' };
const UPPER_BOUNDS = {
  max_length: 'maxLength',
  max_bytes: 'maxBytes',
  max: 'max',
  max_items: 'maxItems',
  max_depth: 'maxDepth',
};
// Scopes that imply a narrower one, as IMPLIED_SCOPES in src/kernel/scopes.ts: a method may change to the narrower
// scope, because no key loses access.
export const IMPLIED_SCOPES = { 'commands:write': ['commands:execute'] };
const MAY_BE_ZERO = ['min', 'max']; // for the other bounds, 0 means no bound

/**
 * Lists the incompatible changes from the image `released` to the image `now`, one sentence each. buf reports deleted
 * elements.
 */
export function listIncompatibleChanges(released, now) {
  const [before, after] = [released, now].map(listElements);
  return [...before].flatMap(([name, promised]) => {
    const current = after.get(name);
    return current ? compareElement(promised, current).map((change) => `${name}: ${change}`) : [];
  });
}

/** Returns the options of all methods and fields, by name. */
function listElements(image) {
  const registry = createFileRegistry(fromBinary(FileDescriptorSetSchema, image));
  const option = (element, name) => {
    const extension = registry.getExtension(name);
    return extension && hasOption(element, extension) ? getOption(element, extension) : undefined;
  };
  const files = [...registry.files].filter(({ proto }) => !FOREIGN.test(proto.name));
  const methods = files
    .flatMap((file) => file.services)
    .flatMap((service) =>
      service.methods.map((method) => [`${service.typeName}/${method.name}`, describeMethod(method, option)]),
    );
  const fields = files
    .flatMap(listMessages)
    .flatMap((message) =>
      message.fields.map((field) => [
        `${message.typeName}.${field.name}`,
        { rules: listRules(option(field, `${OURS}rules`)) },
      ]),
    );
  return new Map([...methods, ...fields]);
}

function listMessages(parent) {
  const nested = parent.nestedMessages ?? parent.messages;
  return nested.flatMap((message) => [message, ...listMessages(message)]);
}

function describeMethod(method, option) {
  const routes = listRoutes(option(method, 'google.api.http')).map(
    ({ verb, path, body }) => `${verb} ${path}${body && ` body ${body}`}`,
  );
  const statuses = (option(method, `${OURS}status_rules`) ?? []).map(
    ({ status, field, value }) => `${status} where ${field} is ${value}`,
  );
  return {
    routes,
    statuses,
    only: {
      required_scope: option(method, `${OURS}required_scope`) ?? '',
      success_status: option(method, `${OURS}success_status`) || 200,
      http_content: option(method, `${OURS}http_content`) ?? 0,
    },
    adminOnly: option(method, `${OURS}admin_only`) ?? false,
  };
}

function listRoutes(rule) {
  if (!rule) return [];
  const { pattern, body, additionalBindings } = rule;
  return [
    { verb: pattern.case?.toUpperCase(), path: String(pattern.value), body },
    ...additionalBindings.flatMap(listRoutes),
  ];
}

/** Returns the rules of a field, with infinite bounds where there are none. */
function listRules(rules) {
  const { required = false, unique = false, format = 0, in: allowed = [] } = rules ?? {};
  const bounds = (names, none) =>
    Object.fromEntries(Object.entries(names).map(([name, key]) => [name, findBound(rules?.[key], key, none)]));
  return {
    required,
    unique,
    format,
    in: allowed,
    least: bounds(LOWER_BOUNDS, Number.NEGATIVE_INFINITY),
    most: bounds(UPPER_BOUNDS, Number.POSITIVE_INFINITY),
  };
}

function findBound(value, key, none) {
  const isNone = value === undefined || (value === 0 && !MAY_BE_ZERO.includes(key));
  return isNone ? none : value;
}

function compareElement(promised, current) {
  return promised.rules ? compareFieldRules(promised.rules, current.rules) : compareMethod(promised, current);
}

/**
 * Compares a method. Routes may be added but not removed; status rules may only be appended, because the first match applies;
 * everything else must stay the same.
 */
function compareMethod(promised, current) {
  const gone = promised.routes
    .filter((route) => !current.routes.includes(route))
    .map((route) => `its route ${route} is gone`);
  const isKept = (name, value) =>
    current.only[name] === value || (name === 'required_scope' && IMPLIED_SCOPES[value]?.includes(current.only[name]));
  const other = Object.entries(promised.only)
    .filter(([name, value]) => !isKept(name, value))
    .map(([name, value]) => `${name} was ${value} and is ${current.only[name]}`);
  const statuses = promised.statuses
    .filter((rule, at) => current.statuses[at] !== rule)
    .map((rule) => `its status ${rule} is gone, or comes after another one`);
  return [...gone, ...other, ...statuses, ...(current.adminOnly && !promised.adminOnly ? ['admin_only is new'] : [])];
}

/** Compares the rules of a field: values that were valid must stay valid. */
function compareFieldRules(promised, current) {
  const now = ['required', 'unique'].filter((rule) => current[rule] && !promised[rule]).map((rule) => `${rule} is new`);
  const format =
    current.format !== promised.format && current.format !== 0
      ? [`format was ${promised.format} and is ${current.format}`]
      : [];
  const lower = Object.entries(promised.most)
    .filter(([rule, bound]) => current.most[rule] < bound)
    .map(([rule, bound]) => `${rule} was ${bound} and is ${current.most[rule]}`);
  const higher = Object.entries(promised.least)
    .filter(([rule, bound]) => current.least[rule] > bound)
    .map(([rule, bound]) => `${rule} was ${bound} and is ${current.least[rule]}`);
  return [...now, ...format, ...compareAllowedValues(promised.in, current.in), ...lower, ...higher];
}

/** An empty list allows every value. */
function compareAllowedValues(before, after) {
  if (after.length === 0) return [];
  if (before.length === 0) return ['in is new'];
  return before.filter((value) => !after.includes(value)).map((value) => `in has no ${value} any more`);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const found = listIncompatibleChanges(...process.argv.slice(2, 4).map((file) => readFileSync(file)));
  for (const line of found) console.log(line);
  if (found.length > 0) process.exitCode = 1;
}
