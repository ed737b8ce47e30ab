import { setImmediate } from 'node:timers/promises';
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020';
import type { Violation } from '../kernel/errors';
import { CONNECTORS, findConnector, getConnector } from './connectors';
import type { ConnectorType, JsonObject } from './connectorType';
import { toViolations } from './schemaViolations';
import { withoutNullSecrets } from './secrets/secretFields';

/**
 * Larger configurations are only checked up to the first error: every error costs memory, and a list of thousands is
 * not useful.
 */
const MAX_VALUES = 500;
const UUID = /^[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}$/i;

/** The values of `format` that a schema may use. */
const FORMATS = { uri: (text: string): boolean => URL.canParse(text), uuid: UUID } as const;

/** The compiled forms of a schema. */
interface Validators {
  /** Finds all errors. */
  readonly findAll: ValidateFunction;
  /** Stops at the first error; compiled on first use, which is rare. */
  findFirst: ValidateFunction | undefined;
}

// A test validates our schemas against the standard. Validating them at run time would cost far more than compiling
// them.
const AJV_OPTIONS = {
  verbose: true,
  strict: true,
  strictTypes: false,
  strictRequired: false,
  ownProperties: true,
  discriminator: true,
  validateSchema: false,
  formats: FORMATS,
} as const;
const CONNECTOR_SCHEMAS = CONNECTORS.flatMap((connector) => [
  connector.configurationSchema,
  connector.deviceConfigurationSchema,
]);
const compiledValidators = new WeakMap<JsonObject, Validators>();

/**
 * Validates a connector id and a configuration with its secret fields. A secret field that is null counts as absent.
 */
export function checkConfiguration(connectorId: string, configuration: JsonObject): Violation[] {
  const connector = findConnector(connectorId);
  if (connector) return checkConnectionConfiguration(connector, withoutNullSecrets(connectorId, configuration));
  const connectorIds = CONNECTORS.map(({ id }) => `\`${id}\``).join(', ');
  return [
    {
      field: 'connectorId',
      description: `${JSON.stringify(connectorId)} is not a connector of this server: use one of ${connectorIds}`,
    },
  ];
}

/** Validates the resulting configuration of a known connector. */
export function checkConnectionConfiguration(connector: ConnectorType, configuration: JsonObject): Violation[] {
  const violations = findSchemaViolations(connector.configurationSchema, configuration, 'configuration');
  return violations.length > 0 ? violations : connector.checkConfiguration(configuration);
}

/**
 * Validates the configuration of a physical device; paths start with `physicalDevice.configuration`. Throws
 * `connector_not_found`.
 */
export function checkDeviceConfiguration(connectorId: string, configuration: JsonObject): Violation[] {
  const connector = getConnector(connectorId);
  const violations = findSchemaViolations(
    connector.deviceConfigurationSchema,
    configuration,
    'physicalDevice.configuration',
  );
  return violations.length > 0 ? violations : connector.checkDeviceConfiguration(configuration);
}

/**
 * Compiles schemas in advance, by default those of the connectors, one at a time, so that other work runs in between.
 * Returns how many were compiled.
 */
export async function compileSchemas(schemas: readonly JsonObject[] = CONNECTOR_SCHEMAS): Promise<number> {
  const uncompiled = schemas.filter((schema) => !compiledValidators.has(schema));
  for (const schema of uncompiled) {
    await setImmediate();
    getValidators(schema);
  }
  return uncompiled.length;
}

/**
 * Validates a value against a schema; a very large value only up to the first error, because each error costs memory.
 * `root`: the path of the value in the violations.
 */
export function findSchemaViolations(schema: JsonObject, value: JsonObject, root: string): Violation[] {
  const validators = getValidators(schema);
  const validate = hasTooManyValues(value)
    ? (validators.findFirst ??= new Ajv2020(AJV_OPTIONS).compile(schema))
    : validators.findAll;
  if (validate(value)) return [];
  return toViolations(validate.errors ?? [], root);
}

/** Compiles the schema when it is first used. */
function getValidators(schema: JsonObject): Validators {
  const compiled = compiledValidators.get(schema);
  if (compiled) return compiled;
  // Throws if a schema is invalid, which is a bug in a connector that the first test finds.
  const validators = {
    findAll: new Ajv2020({ ...AJV_OPTIONS, allErrors: true }).compile(schema),
    findFirst: undefined,
  };
  compiledValidators.set(schema, validators);
  return validators;
}

/** Returns whether a value contains more than MAX_VALUES values at all levels. Stops counting there. */
function hasTooManyValues(value: JsonObject): boolean {
  const pending: unknown[] = [value];
  for (let visited = 0; pending.length > 0; visited += 1) {
    if (visited + pending.length > MAX_VALUES) return true;
    const next = pending.pop();
    if (typeof next !== 'object' || next === null) continue;
    // Pushed one by one, because the number of arguments of a call is limited.
    for (const inner of Object.values(next)) {
      pending.push(inner);
    }
  }
  return false;
}
