import { setImmediate } from 'node:timers/promises';
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020';
import type { Violation } from '../kernel/errors';
import { CONNECTORS, findConnector, getConnector } from './connectors';
import type { ConnectorType, JsonObject } from './connectorType';
import { violationsOfSchema } from './schemaViolations';
import { withoutNullSecrets } from './secrets/secretFields';

/** More values than that are looked at up to the first mistake only: every mistake costs memory, and nobody reads thousands. */
const MOST_VALUES = 500;
const UUID = /^[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}$/i;

/** What a schema may name as `format`. */
const FORMATS = { uri: (text: string): boolean => URL.canParse(text), uuid: UUID } as const;

interface Validators {
  /** Finds every mistake. */
  readonly all: ValidateFunction;
  /** Stops at the first; made when it is first needed, which is hardly ever. */
  first: ValidateFunction | undefined;
}

// The schemas are ours, so they are held against the standard by a test and not at run time, which would cost far more than compiling them.
const OPTIONS = { verbose: true, strict: true, strictTypes: false, strictRequired: false, ownProperties: true, discriminator: true, validateSchema: false, formats: FORMATS } as const;
const compiled = new WeakMap<JsonObject, Validators>();

/** What is wrong with a connector and the configuration for it, its secret fields among the others; a secret field that is null counts as not given. */
export function checkConfiguration(connectorId: string, configuration: JsonObject): Violation[] {
  const connector = findConnector(connectorId);
  if (connector) return checkConfigurationOf(connector, withoutNullSecrets(connectorId, configuration));
  const known = CONNECTORS.map(({ id }) => `\`${id}\``).join(', ');
  return [{ field: 'connectorId', description: `${JSON.stringify(connectorId)} is no connector of this server; give one of ${known}` }];
}

/** The same for a connector that is known, with a configuration as it will be. */
export function checkConfigurationOf(connector: ConnectorType, configuration: JsonObject): Violation[] {
  const violations = violationsOf(connector.configurationSchema, configuration, 'configuration');
  return violations.length > 0 ? violations : connector.checkConfiguration(configuration);
}

/** What is wrong with a physical device's configuration; paths begin with `physicalDevice.configuration`. Throws `connector_not_found`. */
export function checkDeviceConfiguration(connectorId: string, configuration: JsonObject): Violation[] {
  const connector = getConnector(connectorId);
  const violations = violationsOf(connector.deviceConfigurationSchema, configuration, 'physicalDevice.configuration');
  return violations.length > 0 ? violations : connector.checkDeviceConfiguration(configuration);
}

/** Makes ready what checks need, one schema at a time while others are served: the first who asks need not wait for it. Answers how many schemas were new. */
export async function compileSchemas(): Promise<number> {
  const schemas = CONNECTORS.flatMap((connector) => [connector.configurationSchema, connector.deviceConfigurationSchema]);
  const fresh = schemas.filter((schema) => !compiled.has(schema));
  for (const schema of fresh) {
    await setImmediate();
    validatorsOf(schema);
  }
  return fresh.length;
}

function violationsOf(schema: JsonObject, value: JsonObject, root: string): Violation[] {
  const validators = validatorsOf(schema);
  const validate = isWide(value) ? (validators.first ??= new Ajv2020(OPTIONS).compile(schema)) : validators.all;
  if (validate(value)) return [];
  return violationsOfSchema(validate.errors ?? [], root);
}

function validatorsOf(schema: JsonObject): Validators {
  const known = compiled.get(schema);
  if (known) return known;
  // Throws for a schema that is none: a mistake of a connector, which the first test meets.
  const made = { all: new Ajv2020({ ...OPTIONS, allErrors: true }).compile(schema), first: undefined };
  compiled.set(schema, made);
  return made;
}

function isWide(value: JsonObject): boolean {
  const open: unknown[] = [value];
  for (let seen = 0; open.length > 0; seen += 1) {
    if (seen + open.length > MOST_VALUES) return true;
    const next = open.pop();
    // Pushed one by one: a call takes no list of any length.
    if (typeof next === 'object' && next !== null) for (const inner of Object.values(next)) open.push(inner);
  }
  return false;
}
