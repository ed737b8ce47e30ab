import { DomainError } from '../kernel/errors';
import type { JsonObject } from '../kernel/jsonValue';
import type { ParamsSchema } from './paramSchema';

/** How a command is sent: a JSON payload, or bytes from an encoder. */
export type CommandMode = 'direct' | 'encoded';

/** How the effect of a command is verified. */
export type VerificationStrategy = 'no_verification' | 'wait_next_uplink' | 'query_after_ack';

/** A sensor state that is expected after the command. */
interface ExpectedSensorState {
  /** A sensor of the same device. */
  readonly sensorId: string;
  /** JSON or text, with `{{path}}` placeholders. */
  readonly valueTemplate: string;
}

/** A definition as received: mode and strategy may be missing. */
export interface CommandDraft {
  /** Trimmed. */
  readonly name: string;
  readonly description: string | undefined;
  readonly mode: CommandMode | undefined;
  readonly verificationStrategy: VerificationStrategy | undefined;
  readonly paramsSchema: ParamsSchema;
  /** Encoded mode: rendered into the encoder's input; undefined: the parameters are the input. */
  readonly encodedParamsTemplate: JsonObject | undefined;
  /** Direct mode: JSON in which a bare `{{path}}` may replace a value. */
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

/** The validated definition of a command. */
export interface CommandDefinition extends CommandDraft {
  readonly mode: CommandMode;
  readonly verificationStrategy: VerificationStrategy;
}

/** A command of a device. */
export interface Command extends CommandDefinition {
  readonly id: string;
  readonly organizationId: string;
  readonly deviceId: string;
  /** Starts at 1 and increases with every update. */
  readonly revision: number;
  /** Unix milliseconds, as is updatedAt. */
  readonly createdAt: number;
  readonly updatedAt: number;
}

/** The maximum number of commands per device. */
export const MAX_COMMANDS_PER_DEVICE = 200;

/** Creates the error for a command name that the device already uses (case-insensitive). */
export function commandNameTaken(name: string): DomainError {
  return new DomainError(
    'already_exists',
    'name_taken',
    `the device already has a command named ${JSON.stringify(name)} (names are case-insensitive); choose another name`,
  );
}

/** Creates the error for a command that other commands use as their query command. */
export function queryCommandInUse(commandId: string, usedBy: readonly string[]): DomainError {
  const listedNames = usedBy.slice(0, 5).map((name) => JSON.stringify(name));
  const remainder = usedBy.length > listedNames.length ? ` and ${usedBy.length - listedNames.length} more` : '';
  return new DomainError(
    'conflict',
    'query_command_in_use',
    `${listedNames.join(', ')}${remainder} use this command as query command; assign another query command to them first`,
    {
      metadata: { command_id: commandId, uses: String(usedBy.length) },
    },
  );
}

/** Creates the error for a device that already has the maximum number of commands. */
export function commandLimitReached(): DomainError {
  return new DomainError(
    'conflict',
    'command_limit_reached',
    `the device already has the maximum of ${MAX_COMMANDS_PER_DEVICE} commands; delete one first`,
  );
}
