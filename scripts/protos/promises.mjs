// What the protos promise by options, which buf does not compare: routes and scopes of methods, statuses, and what fields may hold.
// `node scripts/protos/promises.mjs RELEASED NOW`: two images. Prints what breaks, a line each; exit status 1 if anything does.
import { createFileRegistry, fromBinary, getOption, hasOption } from '@bufbuild/protobuf';
import { FileDescriptorSetSchema } from '@bufbuild/protobuf/wkt';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const OURS = 'plantroom.v1.';
// As buf.yaml: formats of others.
const FOREIGN = /^(google|grpc|chirpstack)\//;
// The bounds of FieldRules, by their names in the proto and here.
const LEAST = { min_length: 'minLength', min: 'min' };
const MOST = { max_length: 'maxLength', max_bytes: 'maxBytes', max: 'max', max_items: 'maxItems', max_depth: 'maxDepth' };
const MAY_BE_ZERO = ['min', 'max']; // 0 of the others is no bound

/** What `now` breaks of what `released` promised, a sentence each; both are descriptor images. What is gone altogether is buf's to find. */
export function brokenPromises(released, now) {
  const [before, after] = [released, now].map(elementsOf);
  return [...before].flatMap(([name, promised]) => {
    const given = after.get(name);
    return given ? broken(promised, given).map((what) => `${name}: ${what}`) : [];
  });
}

/** Methods and fields by their names, with what they promise. */
function elementsOf(image) {
  const registry = createFileRegistry(fromBinary(FileDescriptorSetSchema, image));
  const option = (element, name) => {
    const extension = registry.getExtension(name);
    return extension && hasOption(element, extension) ? getOption(element, extension) : undefined;
  };
  const files = [...registry.files].filter(({ proto }) => !FOREIGN.test(proto.name));
  const methods = files.flatMap((file) => file.services).flatMap((service) => service.methods.map((method) => [`${service.typeName}/${method.name}`, methodPromise(method, option)]));
  const fields = files.flatMap(messagesOf).flatMap((message) => message.fields.map((field) => [`${message.typeName}.${field.name}`, { rules: rulesOf(option(field, `${OURS}rules`)) }]));
  return new Map([...methods, ...fields]);
}

function messagesOf(parent) {
  const nested = parent.nestedMessages ?? parent.messages;
  return nested.flatMap((message) => [message, ...messagesOf(message)]);
}

function methodPromise(method, option) {
  const routes = routesOf(option(method, 'google.api.http')).map(({ verb, path, body }) => `${verb} ${path}${body && ` body ${body}`}`);
  const statuses = (option(method, `${OURS}status_rules`) ?? []).map(({ status, field, value }) => `${status} where ${field} is ${value}`);
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

function routesOf(rule) {
  if (!rule) return [];
  const { pattern, body, additionalBindings } = rule;
  return [{ verb: pattern.case?.toUpperCase(), path: String(pattern.value), body }, ...additionalBindings.flatMap(routesOf)];
}

/** The rules with a bound for each, be it that there is none. */
function rulesOf(rules) {
  const { required = false, unique = false, format = 0, in: allowed = [] } = rules ?? {};
  const bounds = (names, none) => Object.fromEntries(Object.entries(names).map(([name, key]) => [name, boundOf(rules?.[key], key, none)]));
  return { required, unique, format, in: allowed, least: bounds(LEAST, Number.NEGATIVE_INFINITY), most: bounds(MOST, Number.POSITIVE_INFINITY) };
}

function boundOf(value, key, none) {
  const isNone = value === undefined || (value === 0 && !MAY_BE_ZERO.includes(key));
  return isNone ? none : value;
}

function broken(promised, given) {
  return promised.rules ? narrowed(promised.rules, given.rules) : changed(promised, given);
}

/** A method: routes stay, and more may come; so do rules of statuses, after those that were, for the first that fits decides; the rest stays as it is. */
function changed(promised, given) {
  const gone = promised.routes.filter((route) => !given.routes.includes(route)).map((route) => `its route ${route} is gone`);
  const other = Object.entries(promised.only).filter(([name, value]) => given.only[name] !== value).map(([name, value]) => `${name} was ${value} and is ${given.only[name]}`);
  const statuses = promised.statuses.filter((rule, at) => given.statuses[at] !== rule).map((rule) => `its status ${rule} is gone, or comes after another one`);
  return [...gone, ...other, ...statuses, ...(given.adminOnly && !promised.adminOnly ? ['admin_only is new'] : [])];
}

/** A field: what was taken is taken still. */
function narrowed(promised, given) {
  const now = ['required', 'unique'].filter((rule) => given[rule] && !promised[rule]).map((rule) => `${rule} is new`);
  const format = given.format !== promised.format && given.format !== 0 ? [`format was ${promised.format} and is ${given.format}`] : [];
  const lower = Object.entries(promised.most).filter(([rule, bound]) => given.most[rule] < bound).map(([rule, bound]) => `${rule} was ${bound} and is ${given.most[rule]}`);
  const higher = Object.entries(promised.least).filter(([rule, bound]) => given.least[rule] > bound).map(([rule, bound]) => `${rule} was ${bound} and is ${given.least[rule]}`);
  return [...now, ...format, ...refused(promised.in, given.in), ...lower, ...higher];
}

/** An empty list allows every value. */
function refused(before, after) {
  if (after.length === 0) return [];
  if (before.length === 0) return ['in is new'];
  return before.filter((value) => !after.includes(value)).map((value) => `in has no ${value} any more`);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const found = brokenPromises(...process.argv.slice(2, 4).map((file) => readFileSync(file)));
  for (const line of found) console.log(line);
  if (found.length > 0) process.exitCode = 1;
}
