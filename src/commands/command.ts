import { DomainError } from '../kernel/errors';
import type { JsonObject } from '../kernel/jsonValue';
import type { ParamsSchema } from './paramSchema';

/** How a command is carried: a JSON payload, or bytes made by an encoder. */
export type CommandMode = 'direct' | 'encoded';

/** How it is checked that a command had its effect. */
export type VerificationStrategy = 'no_verification' | 'wait_next_uplink' | 'query_after_ack';

/** A state that a sensor is expected to show after the command. */
export interface ExpectedSensorState {
  /** A sensor of the same device. */
  readonly sensorId: string;
  /** JSON or text, with `{{path}}` placeholders. */
  readonly valueTemplate: string;
}

/** A definition as it came in: mode and strategy may be missing. */
export interface CommandDraft {
  /** Trimmed. */
  readonly name: string;
  readonly description: string | undefined;
  readonly mode: CommandMode | undefined;
  readonly verificationStrategy: VerificationStrategy | undefined;
  readonly paramsSchema: ParamsSchema;
  /** Encoded mode: rendered into the encoder's input; undefined: the parameters are the input. */
  readonly encodedParamsTemplate: JsonObject | undefined;
  /** Direct mode: JSON in which a bare `{{path}}` may stand for a value. */
  readonly directPayload: string | undefined;
  /** Encoded mode: JavaScript. */
  readonly customEncoder: string | undefined;
  /** LoRaWAN port, 1 to 223. */
  readonly fPort: number | undefined;
  readonly mqttTopic: string | undefined;
  readonly confirmed: boolean | undefined;
  /** Another command of the same device. */
  readonly queryCommandId: string | undefined;
  readonly expectedSensorStates: readonly ExpectedSensorState[];
  /** Seconds, 1 to 604800. */
  readonly convergenceTimeout: number | undefined;
  /** Encoded mode: the device profile that the encoder was copied from. */
  readonly encoderProfileId: string | undefined;
}

/** What a command does. */
export interface CommandDefinition extends CommandDraft {
  readonly mode: CommandMode;
  readonly verificationStrategy: VerificationStrategy;
}

/** A command of a device. */
export interface Command extends CommandDefinition {
  readonly id: string;
  readonly organizationId: string;
  readonly deviceId: string;
  /** 1 when created, one more with every update. */
  readonly revision: number;
  /** Unix milliseconds, as is updatedAt. */
  readonly createdAt: number;
  readonly updatedAt: number;
}

/** How many commands one device may have. */
export const MOST_COMMANDS = 200;

/** The device has a command of this name, whatever the case. */
export function commandNameTaken(name: string): DomainError {
  return new DomainError('already_exists', 'name_taken', `the device has a command ${JSON.stringify(name)} already, upper and lower case aside; choose another name`);
}

/** Other commands query with this one. */
export function queryCommandInUse(commandId: string, usedBy: readonly string[]): DomainError {
  const named = usedBy.slice(0, 5).map((name) => JSON.stringify(name));
  const more = usedBy.length > named.length ? ` and ${usedBy.length - named.length} more` : '';
  return new DomainError('conflict', 'query_command_in_use', `${named.join(', ')}${more} use this command as query command; give them another one first`, {
    metadata: { command_id: commandId, uses: String(usedBy.length) },
  });
}

/** The device has as many commands as it may have. */
export function commandLimitReached(): DomainError {
  return new DomainError('conflict', 'command_limit_reached', `the device has ${MOST_COMMANDS} commands, which is as many as one may have; delete one first`);
}
