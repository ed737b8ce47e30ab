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
  /** A disabled one carries nothing. */
  readonly enabled: boolean;
  /** Without its secret fields. */
  readonly configuration: JsonObject;
  /** The secret fields that are set, each encrypted (SecretBox). */
  readonly sealedSecrets: SealedSecrets;
  /** As it was given; effectivePolicy fills in the defaults. */
  readonly policy: ConnectionPolicy;
  readonly createdAt: number;
  readonly updatedAt: number;
  /** Counts the changes from 1; the etag is made of it. */
  readonly revision: number;
  /** What cannot be read in the database, and is empty here; absent: nothing is damaged. Such a connection carries nothing. */
  readonly damaged?: readonly ConnectionPart[];
}

/** What of a connection is stored as JSON. */
export const CONNECTION_PARTS = ['configuration', 'secrets', 'policy'] as const;

/** One of CONNECTION_PARTS. */
export type ConnectionPart = (typeof CONNECTION_PARTS)[number];

/** Ciphertexts by the name of the field. */
export type SealedSecrets = Readonly<Record<string, string>>;

/** Limits and times of a connection's executions, in seconds; what an undefined one stands for depends on the connector and the device. */
export interface ConnectionPolicy {
  /** Undelivered executions of a device, 1 to 1000. */
  readonly queueLimit?: number | undefined;
  /** The other side is often away for long. */
  readonly sleepy?: boolean | undefined;
  /** From submit to delivery, 1 to 604800. */
  readonly deliveryTimeout?: number | undefined;
  /** Beyond the delivery deadline, on LoRaWAN from the delivery on; 1 to 86400. */
  readonly ackTimeout?: number | undefined;
  /** Commands sent and not yet received by a gateway, 1 to 1000. */
  readonly maxInFlight?: number | undefined;
  /** From the delivery to the next uplink, where that is the acknowledgement, 1 to 604800. */
  readonly implicitAckTimeout?: number | undefined;
  /** For the effect to show, of commands that do not say it themselves, 1 to 604800. */
  readonly convergenceTimeout?: number | undefined;
  /** Between two uplinks of a device of which nothing better is known, 1 to 2592000. */
  readonly uplinkInterval?: number | undefined;
}

/** What a connector reads of a policy, with its default: 16 in flight. */
export interface EffectivePolicy {
  readonly maxInFlight: number;
}

/** Fills in the defaults. */
export function effectivePolicy(policy: ConnectionPolicy): EffectivePolicy {
  return { maxInFlight: policy.maxInFlight ?? 16 };
}

/** Another connection of the organization has the name already. */
export function nameTaken(name: string): DomainError {
  return new DomainError('already_exists', 'name_taken', `another connection is named ${JSON.stringify(name)}, whatever the case; choose another name`, { metadata: { name } });
}

/** The connection cannot be used until somebody gives again what cannot be read. */
export function connectionDamaged(id: string, damaged: readonly ConnectionPart[]): DomainError {
  return new DomainError('conflict', 'connection_damaged', `the ${damaged.join(', the ')} of the connection cannot be read in the database; update it with ${givenAgain(damaged)}, or restore a copy of the database`, { metadata: { connection_id: id } });
}

/** What a change of a damaged connection has to give: its fields. */
export function fieldsToGiveAgain(damaged: readonly ConnectionPart[]): readonly ('configuration' | 'policy')[] {
  return [...new Set(damaged.map((part) => (part === 'policy' ? part : 'configuration')))];
}

function givenAgain(damaged: readonly ConnectionPart[]): string {
  return fieldsToGiveAgain(damaged).map((field) => (field === 'policy' ? 'a new policy' : 'a new configuration, with its secret fields')).join(' and ');
}

/** Devices are bound to it. `devices`: how many; undefined while nobody has counted. */
export function connectionInUse(id: string, devices: number | undefined): DomainError {
  const bound = devices === undefined ? 'devices are' : devices === 1 ? '1 device is' : `${devices} devices are`;
  return new DomainError('conflict', 'connection_in_use', `${bound} bound to the connection; unbind or delete them first`, {
    metadata: { connection_id: id, ...(devices !== undefined && { devices: String(devices) }) },
  });
}
