import type { ErrorObject } from 'ajv/dist/2020';
import type { Violation } from '../kernel/errors';
import { nearest } from '../kernel/nearest';
import { shortened } from '../kernel/shortened';

const MOST = 50;
const LONGEST_NAME = 64;
/** They only sum up what other errors say better. */
const SUMS = new Set(['oneOf', 'anyOf', 'if', 'allOf', 'not', '$ref', 'propertyNames']);
const TYPES: Readonly<Record<string, string>> = { string: 'a text', number: 'a number', integer: 'a whole number', boolean: 'true or false', array: 'a list', object: 'an object', null: 'null' };

/** The errors that ajv found, as sentences that say what would be right and never show a value: it may be a secret. At most 50. `root` is the path of the value. */
export function violationsOfSchema(errors: readonly ErrorObject[], root: string): Violation[] {
  const likely = ofLikelyBranches(errors);
  const telling = likely.filter(({ keyword }) => !SUMS.has(keyword));
  const found = new Map<string, ErrorObject[]>();
  for (const error of telling.length > 0 ? telling : likely) {
    const field = root + fieldOf(error);
    found.set(field, [...(found.get(field) ?? []), error]);
  }
  const violations = [...found].slice(0, MOST).map(([field, wrong]) => ({ field, description: [...new Set(mostTelling(wrong).map(describe))].join(', or ') }));
  const more = found.size - MOST;
  return more > 0 ? [...violations, { field: root, description: `holds ${more} more mistakes; mend these first` }] : violations;
}

/** Without the alternatives that were not meant: those that another value of a fixed member, or another type, would choose. */
function ofLikelyBranches(errors: readonly ErrorObject[]): readonly ErrorObject[] {
  const unlikely = new Map<string, Set<string>>();
  const seen = new Map<string, Set<string>>();
  for (const error of errors) {
    const branch = branchOf(error);
    if (!branch) continue;
    seen.set(branch.of, (seen.get(branch.of) ?? new Set()).add(branch.number));
    if (['const', 'enum', 'type'].includes(error.keyword)) unlikely.set(branch.of, (unlikely.get(branch.of) ?? new Set()).add(branch.number));
  }
  return errors.filter((error) => {
    const branch = branchOf(error);
    if (!branch) return true;
    const wrong = unlikely.get(branch.of);
    const isAnyLikely = (seen.get(branch.of)?.size ?? 0) > (wrong?.size ?? 0);
    return isAnyLikely ? !wrong?.has(branch.number) : ['const', 'enum', 'type'].includes(error.keyword);
  });
}

function branchOf({ schemaPath }: ErrorObject): { of: string; number: string } | undefined {
  const [, of, number] = /^(.*?\/(?:oneOf|anyOf))\/(\d+)\//.exec(schemaPath) ?? [];
  return of !== undefined && number !== undefined ? { of, number } : undefined;
}

function fieldOf({ instancePath, keyword, params }: ErrorObject): string {
  const names = instancePath.split('/').slice(1).map((name) => name.replaceAll('~1', '/').replaceAll('~0', '~'));
  const name: unknown = { additionalProperties: params['additionalProperty'], unevaluatedProperties: params['unevaluatedProperty'], required: params['missingProperty'], dependentRequired: params['missingProperty'], discriminator: params['tag'] }[keyword];
  if (typeof name === 'string') names.push(name);
  return names.map((part) => (/^\d+$/.test(part) ? `[${part}]` : `.${shortened(part, LONGEST_NAME)}`)).join('');
}

type Words = (schema: Readonly<Record<string, unknown>>, params: Readonly<Record<string, unknown>>) => string;

const listed = (values: unknown): string => (Array.isArray(values) ? values : [values]).map((value) => `\`${String(value)}\``).join(', ');
const range: Words = ({ minimum, maximum }) => `must be ${between(minimum, maximum)}`;
const size =
  (what: string, least: string, most: string): Words =>
  (schema) =>
    `must have ${between(schema[least], schema[most])} ${what}`;

const DESCRIPTIONS: Readonly<Record<string, Words>> = {
  additionalProperties: unknownSetting,
  unevaluatedProperties: unknownSetting,
  required: (schema, params) => missing(schema, String(params['missingProperty'])),
  dependentRequired: (schema, params) => `${missing(schema, String(params['missingProperty']))} (\`${String(params['property'])}\` needs it)`,
  type: (schema) => `must be ${wanted(schema)}`,
  enum: ({ enum: values }) => `must be one of ${listed(values)}`,
  const: (schema) => `must be ${listed(schema['const'])}`,
  format: (schema) => `must be ${schema['format'] === 'uuid' ? 'a UUID, for example 0190a0a0-0000-7000-8000-000000000000' : 'a URL'}${more(schema)}`,
  pattern: (schema) => (schema['description'] === undefined ? `must have the form ${String(schema['pattern'])}` : `does not have the right form${more(schema)}`),
  minimum: range,
  maximum: range,
  minLength: size('characters', 'minLength', 'maxLength'),
  maxLength: size('characters', 'minLength', 'maxLength'),
  minItems: size('items', 'minItems', 'maxItems'),
  maxItems: size('items', 'minItems', 'maxItems'),
  minProperties: size('members', 'minProperties', 'maxProperties'),
  maxProperties: size('members', 'minProperties', 'maxProperties'),
  uniqueItems: () => 'holds the same item twice; leave one out',
  discriminator: choice,
  'false schema': () => 'has no place here; leave it out',
};

/** What chooses an alternative says also that it is missing, and which there are. */
function mostTelling(wrong: readonly ErrorObject[]): readonly ErrorObject[] {
  const choosing = wrong.filter(({ keyword }) => keyword === 'discriminator');
  return choosing.length > 0 ? choosing : wrong;
}

function describe({ keyword, params, parentSchema = {}, message, propertyName }: ErrorObject): string {
  const schema: Readonly<Record<string, unknown>> = parentSchema;
  const words = DESCRIPTIONS[keyword];
  const wrong = words ? words(schema, params) : `${message ?? 'is wrong'}${more(schema)}`;
  return propertyName === undefined ? wrong : `has a member \`${shortened(propertyName, LONGEST_NAME)}\`, whose name ${wrong}`;
}

function unknownSetting(schema: Readonly<Record<string, unknown>>, params: Readonly<Record<string, unknown>>): string {
  const name = String(params['additionalProperty'] ?? params['unevaluatedProperty']);
  const names = Object.keys(propertiesOf(schema));
  if (names.length === 0) return 'is no setting here: there are none; leave it out';
  const near = nearest(name, names.filter((known) => Math.abs(known.length - name.length) <= 2 + name.length / 3)); // others are too far away
  return near === undefined ? `is no setting here; leave it out, or give one of ${listed(names)}` : `is no setting here; did you mean \`${near}\`?`;
}

function choice({ oneOf }: Readonly<Record<string, unknown>>, { tag, tagValue }: Readonly<Record<string, unknown>>): string {
  const values = (oneOf as Readonly<Record<string, unknown>>[]).map((alternative) => propertiesOf(alternative)[String(tag)]?.['const']);
  return tagValue === undefined ? `is missing; give one of ${listed(values)}` : `must be one of ${listed(values)}`;
}

function missing(schema: Readonly<Record<string, unknown>>, name: string): string {
  const property = propertiesOf(schema)[name] ?? {};
  return `is missing; give ${wanted(property)}${more(property)}`;
}

function propertiesOf({ properties }: Readonly<Record<string, unknown>>): Readonly<Record<string, Readonly<Record<string, unknown>>>> {
  return (properties ?? {}) as Record<string, Record<string, unknown>>;
}

function wanted(schema: Readonly<Record<string, unknown>>): string {
  if (Array.isArray(schema['enum'])) return `one of ${listed(schema['enum'])}`;
  const types = ([schema['type'] ?? []].flat() as string[]).map((type) => TYPES[type] ?? type);
  return types.join(' or ') || 'it';
}

function between(least: unknown, most: unknown): string {
  if (least === undefined) return `at most ${Number(most)}`;
  if (most === undefined) return `at least ${Number(least)}`;
  return least === most ? `exactly ${Number(least)}` : `${Number(least)} to ${Number(most)}`;
}

/** What the schema says of the value, as a part of a sentence. */
function more({ description }: Readonly<Record<string, unknown>>): string {
  return typeof description === 'string' ? `: ${description.replace(/\.$/, '')}` : '';
}
