import { DomainError } from '../kernel/errors';
import type { JsonObject } from './connectorType';

/** A configured instance of a connector. Times are Unix milliseconds. */
export interface Connection {
  readonly id: string;
  readonly organizationId: string;
  /** One of CONNECTORS. */
  readonly connectorId: string;
  readonly name: string;
  readonly description: string;
  /** A disabled connection carries no traffic. */
  readonly enabled: boolean;
  /** Without its secret fields. */
  readonly configuration: JsonObject;
  /** The secret fields that are set, each encrypted by SecretCipher. */
  readonly encryptedSecrets: EncryptedSecrets;
  /** As configured; applyPolicyDefaults applies the defaults. */
  readonly policy: ConnectionPolicy;
  readonly createdAt: number;
  readonly updatedAt: number;
  /** The number of changes, starting at 1. The etag is derived from it. */
  readonly revision: number;
  /**
   * The parts that are unreadable in the database, and empty here; undefined if none. A corrupt connection carries no
   * traffic.
   */
  readonly corruptParts?: readonly ConnectionPart[];
}

/** The parts of a connection that are stored as JSON. */
export const CONNECTION_PARTS = ['configuration', 'secrets', 'policy'] as const;

/** One of CONNECTION_PARTS. */
type ConnectionPart = (typeof CONNECTION_PARTS)[number];

/** Encrypted secrets (see encryptSecret) by field name. */
export type EncryptedSecrets = Readonly<Record<string, string>>;

/**
 * Limits and times of a connection's executions, in seconds. The default of an undefined field depends on the connector
 * and the device.
 */
export interface ConnectionPolicy {
  /** The maximum number of undelivered executions per device, 1 to 1000. */
  readonly queueLimit?: number | undefined;
  /** The peer is often disconnected for a long time. */
  readonly sleepy?: boolean | undefined;
  /** From submission to delivery, 1 to 604800. */
  readonly deliveryTimeout?: number | undefined;
  /** After the delivery deadline, on LoRaWAN after the delivery, 1 to 86400. */
  readonly ackTimeout?: number | undefined;
  /** The maximum number of commands that are sent and not yet received by a gateway, 1 to 1000. */
  readonly maxInFlight?: number | undefined;
  /** From the delivery to the next uplink, if that is the acknowledgement, 1 to 604800. */
  readonly implicitAckTimeout?: number | undefined;
  /** Time for the effect of commands without their own setting, 1 to 604800. */
  readonly convergenceTimeout?: number | undefined;
  /** The interval between uplinks of a device if no better value is known, 1 to 2592000. */
  readonly uplinkInterval?: number | undefined;
}

/** The policy fields that connectors use, with the default of 16 commands in flight. */
interface EffectivePolicy {
  readonly maxInFlight: number;
}

const DEFAULT_MAX_IN_FLIGHT = 16;

/** Returns the policy with the defaults of undefined fields. */
export function applyPolicyDefaults(policy: ConnectionPolicy): EffectivePolicy {
  return { maxInFlight: policy.maxInFlight ?? DEFAULT_MAX_IN_FLIGHT };
}

/** Creates the error for a name that another connection of the organization already has. */
export function nameTaken(name: string): DomainError {
  return new DomainError(
    'already_exists',
    'name_taken',
    `a connection named ${JSON.stringify(name)} already exists (names are case-insensitive); choose another name`,
    { metadata: { name } },
  );
}

/** Creates the error for a connection that cannot be used until its unreadable parts are set again. */
export function connectionCorrupt(id: string, corruptParts: readonly ConnectionPart[]): DomainError {
  return new DomainError(
    'conflict',
    'connection_corrupt',
    `the ${corruptParts.join(', the ')} of the connection is unreadable in the database; update the connection with ${describeRequiredFields(corruptParts)}, or restore a copy of the database`,
    { metadata: { connection_id: id } },
  );
}

/**
 * Returns the fields that an update of a corrupt connection must set. Unreadable secrets require a new configuration,
 * because secret fields are set as part of it.
 */
export function getFieldsToRepair(corruptParts: readonly ConnectionPart[]): readonly ('configuration' | 'policy')[] {
  return [...new Set(corruptParts.map((part) => (part === 'policy' ? part : 'configuration')))];
}

/** Lists what an update of a corrupt connection must contain, as a part of a sentence. */
function describeRequiredFields(corruptParts: readonly ConnectionPart[]): string {
  return getFieldsToRepair(corruptParts)
    .map((field) => (field === 'policy' ? 'a new policy' : 'a new configuration, with its secret fields'))
    .join(' and ');
}

/**
 * Creates the error for a connection that devices are bound to. `devices`: their number; undefined if they were not
 * counted.
 */
export function connectionInUse(id: string, devices: number | undefined): DomainError {
  return new DomainError(
    'conflict',
    'connection_in_use',
    `${formatBoundDevices(devices)} bound to the connection; unbind or delete them first`,
    {
      metadata: { connection_id: id, ...(devices !== undefined && { devices: String(devices) }) },
    },
  );
}

/** Returns the subject and verb of a sentence about the bound devices. */
function formatBoundDevices(devices: number | undefined): string {
  if (devices === undefined) return 'devices are';
  return devices === 1 ? '1 device is' : `${devices} devices are`;
}
