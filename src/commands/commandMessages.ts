import {
  CommandMode as WireMode,
  ParamType as WireType,
  VerificationStrategy as WireStrategy,
} from '../gen/actuator_command/v2/actuator_command_service';
import type {
  Command as CommandMessage,
  CommandDefinition as DefinitionMessage,
  CreateCommandRequest,
  ListCommandsResponse,
  ParamSchema as ParamMessage,
  UpdateCommandRequest,
} from '../gen/actuator_command/v2/actuator_command_service';
import { validationFailed, type Violation } from '../kernel/errors';
import { getEtag } from '../kernel/etags';
import type { JsonValue } from '../kernel/jsonValue';
import { toTimestamp } from '../kernel/timestamps';
import type { Command, CommandDefinition, CommandDraft, CommandMode, VerificationStrategy } from './command';
import type { CommandPage, CommandReferences } from './commandService';
import type { CommandWarning } from './commandWarnings';
import { checkDefinition } from './definitionRules';
import type { ParamSchema, ParamType } from './paramSchema';

const MODES: ReadonlyMap<WireMode, CommandMode> = new Map([
  [WireMode.COMMAND_MODE_DIRECT, 'direct'],
  [WireMode.COMMAND_MODE_ENCODED, 'encoded'],
]);

const STRATEGIES: ReadonlyMap<WireStrategy, VerificationStrategy> = new Map([
  [WireStrategy.VERIFICATION_STRATEGY_NO_VERIFICATION, 'no_verification'],
  [WireStrategy.VERIFICATION_STRATEGY_WAIT_NEXT_UPLINK, 'wait_next_uplink'],
  [WireStrategy.VERIFICATION_STRATEGY_QUERY_AFTER_ACK, 'query_after_ack'],
]);

const TYPES: ReadonlyMap<WireType, ParamType> = new Map([
  [WireType.PARAM_TYPE_STRING, 'string'],
  [WireType.PARAM_TYPE_INTEGER, 'integer'],
  [WireType.PARAM_TYPE_NUMBER, 'number'],
  [WireType.PARAM_TYPE_BOOLEAN, 'boolean'],
]);

/** Validates the definition in a request without the database; no violations if there is no definition. */
export function checkCommandMessage(request: CreateCommandRequest | UpdateCommandRequest): Violation[] {
  return request.command ? checkDefinition(draftFromMessage(request.command)) : [];
}

// The maximum of the proto. Items beyond it are not checked.
const MAX_EXPECTED_STATES = 50;

/**
 * Reads the parts of a definition that are checked against the database, even if the definition is invalid, so that all
 * violations are reported together.
 */
export function referencesFromMessage({
  expectedSensorStates,
  queryCommandId,
  customEncoder,
  encoderProfileId,
}: DefinitionMessage): CommandReferences {
  return {
    expectedSensorStates: expectedSensorStates.slice(0, MAX_EXPECTED_STATES),
    queryCommandId,
    customEncoder: customEncoder || undefined,
    encoderProfileId,
  };
}

/** Reads the definition in a request. Throws `validation_failed` if it, its mode or its strategy is missing. */
export function definitionFromMessage(message: DefinitionMessage | undefined): CommandDefinition {
  const draft = message && draftFromMessage(message);
  if (!draft?.mode || !draft.verificationStrategy)
    throw validationFailed([{ field: 'command', description: 'must have name, mode and verificationStrategy' }]);
  return { ...draft, mode: draft.mode, verificationStrategy: draft.verificationStrategy };
}

/** Converts a command to its proto message. `warnings`: only after it was created or updated. */
export function commandToMessage(command: Command, warnings: readonly CommandWarning[] = []): CommandMessage {
  return {
    id: command.id,
    organizationId: command.organizationId,
    deviceId: command.deviceId,
    name: command.name,
    description: command.description,
    mode: toWire(MODES, command.mode),
    verificationStrategy: toWire(STRATEGIES, command.verificationStrategy),
    paramsSchema: Object.fromEntries(
      Object.entries(command.paramsSchema).map(([name, entry]) => [name, paramSchemaToMessage(entry)]),
    ),
    encodedParamsTemplate: command.encodedParamsTemplate,
    directPayload: command.directPayload,
    customEncoder: command.customEncoder,
    fPort: command.fPort,
    mqttTopic: command.mqttTopic,
    confirmed: command.confirmed,
    queryCommandId: command.queryCommandId,
    expectedSensorStates: command.expectedSensorStates.map(({ sensorId, valueTemplate }) => ({
      sensorId,
      valueTemplate,
    })),
    convergenceTimeout: command.convergenceTimeout,
    encoderProfileId: command.encoderProfileId,
    revision: command.revision,
    createdAt: toTimestamp(command.createdAt),
    updatedAt: toTimestamp(command.updatedAt),
    etag: getEtag(command.revision),
    warnings: warnings.map(({ code, message }) => ({ code, message })),
  };
}

/** Converts one page of commands to its proto message. */
export function commandPageToMessage(page: CommandPage): ListCommandsResponse {
  return { commands: page.commands.map((command) => commandToMessage(command)), nextPageToken: page.nextPageToken };
}

/** Reads a definition from its proto message. Mode and strategy are undefined if they are not set. */
function draftFromMessage(message: DefinitionMessage): CommandDraft {
  return {
    name: message.name,
    description: message.description,
    mode: MODES.get(message.mode),
    verificationStrategy: STRATEGIES.get(message.verificationStrategy),
    paramsSchema: Object.fromEntries(
      Object.entries(message.paramsSchema).map(([name, entry]) => [name, paramFromMessage(entry)]),
    ),
    encodedParamsTemplate: message.encodedParamsTemplate,
    // An empty text means the same as a missing one.
    directPayload: message.directPayload || undefined,
    customEncoder: message.customEncoder || undefined,
    fPort: message.fPort,
    mqttTopic: message.mqttTopic,
    confirmed: message.confirmed,
    queryCommandId: message.queryCommandId,
    expectedSensorStates: message.expectedSensorStates.map(({ sensorId, valueTemplate }) => ({
      sensorId,
      valueTemplate,
    })),
    convergenceTimeout: message.convergenceTimeout,
    encoderProfileId: message.encoderProfileId,
  };
}

function paramFromMessage(message: ParamMessage): ParamSchema {
  return {
    type: TYPES.get(message.type),
    // null is a default value, an absent field is not.
    default: message.default as JsonValue | undefined,
    description: message.description,
    min: message.min,
    max: message.max,
    enum: message.enum as JsonValue[],
    pattern: message.pattern,
  };
}

/** Converts the schema of one parameter. */
function paramSchemaToMessage(schema: ParamSchema): ParamMessage {
  return {
    type: schema.type ? toWire(TYPES, schema.type) : WireType.PARAM_TYPE_UNSPECIFIED,
    default: schema.default,
    description: schema.description,
    min: schema.min,
    max: schema.max,
    enum: [...schema.enum],
    pattern: schema.pattern,
  };
}

/** Returns the enum number of a value in the proto. */
function toWire<Wire, Value>(table: ReadonlyMap<Wire, Value>, value: Value): Wire {
  for (const [wire, candidate] of table) if (candidate === value) return wire;
  throw new TypeError(`${String(value)} has no number in the proto`);
}
