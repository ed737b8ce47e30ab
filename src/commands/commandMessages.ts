import { CommandMode as WireMode, ParamType as WireType, VerificationStrategy as WireStrategy } from '../gen/actuator_command/v2/actuator_command_service';
import type {
  Command as CommandMessage,
  CommandDefinition as DefinitionMessage,
  CreateCommandRequest,
  ListCommandsResponse,
  ParamSchema as ParamMessage,
  UpdateCommandRequest,
} from '../gen/actuator_command/v2/actuator_command_service';
import { validationFailed, type Violation } from '../kernel/errors';
import { etagOf } from '../kernel/etags';
import type { JsonValue } from '../kernel/jsonValue';
import { toTimestamp } from '../kernel/timestamps';
import type { Command, CommandDefinition, CommandDraft, CommandMode, VerificationStrategy } from './command';
import type { CommandPage, CommandReferences } from './commandService';
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

/** What is wrong with the definition in a request as far as it alone tells; nothing if there is none. */
export function checkCommandMessage(request: CreateCommandRequest | UpdateCommandRequest): Violation[] {
  return request.command ? checkDefinition(draftFromMessage(request.command)) : [];
}

// As many as the proto allows: of a list that is too long the rest is not looked at.
const MOST_STATES = 50;

/** What the definition in a request refers to, whatever else is wrong with it. */
export function referencesFromMessage({ expectedSensorStates, queryCommandId, customEncoder, encoderProfileId }: DefinitionMessage): CommandReferences {
  return { expectedSensorStates: expectedSensorStates.slice(0, MOST_STATES), queryCommandId, customEncoder: customEncoder || undefined, encoderProfileId };
}

/** The definition in a request. Throws `validation_failed` without one, or without mode or strategy. */
export function definitionFromMessage(message: DefinitionMessage | undefined): CommandDefinition {
  const draft = message && draftFromMessage(message);
  if (!draft?.mode || !draft.verificationStrategy) throw validationFailed([{ field: 'command', description: 'needs name, mode and verificationStrategy; give them' }]);
  return { ...draft, mode: draft.mode, verificationStrategy: draft.verificationStrategy };
}

/** The command as it is answered. */
export function commandToMessage(command: Command): CommandMessage {
  return {
    id: command.id,
    organizationId: command.organizationId,
    deviceId: command.deviceId,
    name: command.name,
    description: command.description,
    mode: wireOf(MODES, command.mode),
    verificationStrategy: wireOf(STRATEGIES, command.verificationStrategy),
    paramsSchema: Object.fromEntries(Object.entries(command.paramsSchema).map(([name, entry]) => [name, paramToMessage(entry)])),
    encodedParamsTemplate: command.encodedParamsTemplate,
    directPayload: command.directPayload,
    customEncoder: command.customEncoder,
    fPort: command.fPort,
    mqttTopic: command.mqttTopic,
    confirmed: command.confirmed,
    queryCommandId: command.queryCommandId,
    expectedSensorStates: command.expectedSensorStates.map(({ sensorId, valueTemplate }) => ({ sensorId, valueTemplate })),
    convergenceTimeout: command.convergenceTimeout,
    encoderProfileId: command.encoderProfileId,
    revision: command.revision,
    createdAt: toTimestamp(command.createdAt),
    updatedAt: toTimestamp(command.updatedAt),
    etag: etagOf(command.revision),
  };
}

/** One page of commands as it is answered. */
export function commandPageToMessage(page: CommandPage): ListCommandsResponse {
  return { commands: page.commands.map(commandToMessage), nextPageToken: page.nextPageToken };
}

function draftFromMessage(message: DefinitionMessage): CommandDraft {
  return {
    name: message.name,
    description: message.description,
    mode: MODES.get(message.mode),
    verificationStrategy: STRATEGIES.get(message.verificationStrategy),
    paramsSchema: Object.fromEntries(Object.entries(message.paramsSchema).map(([name, entry]) => [name, paramFromMessage(entry)])),
    encodedParamsTemplate: message.encodedParamsTemplate,
    // An empty text says as little as none.
    directPayload: message.directPayload || undefined,
    customEncoder: message.customEncoder || undefined,
    fPort: message.fPort,
    mqttTopic: message.mqttTopic,
    confirmed: message.confirmed,
    queryCommandId: message.queryCommandId,
    expectedSensorStates: message.expectedSensorStates.map(({ sensorId, valueTemplate }) => ({ sensorId, valueTemplate })),
    convergenceTimeout: message.convergenceTimeout,
    encoderProfileId: message.encoderProfileId,
  };
}

function paramFromMessage(message: ParamMessage): ParamSchema {
  return {
    type: TYPES.get(message.type),
    // null is a default, absent is none.
    default: message.default as JsonValue | undefined,
    description: message.description,
    min: message.min,
    max: message.max,
    enum: message.enum as JsonValue[],
    pattern: message.pattern,
  };
}

function paramToMessage(entry: ParamSchema): ParamMessage {
  return {
    type: entry.type ? wireOf(TYPES, entry.type) : WireType.PARAM_TYPE_UNSPECIFIED,
    default: entry.default,
    description: entry.description,
    min: entry.min,
    max: entry.max,
    enum: [...entry.enum],
    pattern: entry.pattern,
  };
}

function wireOf<Wire, Word>(table: ReadonlyMap<Wire, Word>, word: Word): Wire {
  for (const [wire, known] of table) if (known === word) return wire;
  throw new TypeError(`${String(word)} has no number in the proto`);
}
