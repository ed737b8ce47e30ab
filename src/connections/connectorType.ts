import type { Violation } from '../kernel/errors';

/** A free-form JSON object. */
export type JsonObject = Readonly<Record<string, unknown>>;

/** The JSON Schema dialect of the connector schemas. */
export const SCHEMA_DIALECT = 'https://json-schema.org/draft/2020-12/schema';

/** The transport of a command, which determines the possible evidence. */
export const CONNECTOR_KINDS = ['gateway', 'mqtt', 'mqtt_answer', 'chirpstack', 'chirpstack_confirmed'] as const;

/** One of CONNECTOR_KINDS. `mqtt_answer` has a response mapping, `chirpstack_confirmed` a confirmed downlink. */
export type ConnectorKind = (typeof CONNECTOR_KINDS)[number];

/** The fields of a command that a connector checks before it is sent. */
export interface RoutedCommand {
  readonly clientDeviceId: string;
  readonly mode: 'direct' | 'encoded';
  /** May be empty. */
  readonly topic: string;
  readonly fPort: number | undefined;
  readonly confirmed: boolean;
  /** LoRaWAN: whether the network server is known to have a codec for the device. */
  readonly networkCodec: 'present' | 'missing' | 'unknown';
}

/** A feature of a connector. */
type Capability = 'uplink' | 'downlink' | 'native_ack' | 'cancel_command';

/** A connector type: its catalogue entry, and the rules for its connections and devices. */
export interface ConnectorType {
  /** The value of a connection's `connectorId`. */
  readonly id: string;
  /** The type of transport, as shown to users. */
  readonly type: string;
  readonly name: string;
  readonly description: string;
  readonly capabilities: readonly Capability[];
  /** JSON Schema (2020-12) of a connection's configuration. */
  readonly configurationSchema: JsonObject;
  /** JSON Schema (2020-12) of a physical device's configuration. */
  readonly deviceConfigurationSchema: JsonObject;
  /** The write-only fields of the configuration: top-level, and part of its schema. */
  readonly secretFields: readonly string[];
  /**
   * The fields of the configuration that decide where the secrets are sent and how the peer proves its identity:
   * top-level, not secret. If one changes, stored secrets are not used any more.
   */
  readonly secretPlaceFields: readonly string[];
  /** Checks a configuration with its secret fields beyond its schema; paths start with `configuration`. */
  checkConfiguration(configuration: JsonObject): Violation[];
  /** Checks a physical device's configuration beyond its schema; paths start with `physicalDevice.configuration`. */
  checkDeviceConfiguration(configuration: JsonObject): Violation[];
  /** Returns the kind of state machine for a command over a connection with this configuration. */
  getKind(configuration: JsonObject, confirmed: boolean): ConnectorKind;
  /** Checks whether a command can be sent over a connection with this configuration; paths start with `command`. */
  checkCommand(configuration: JsonObject, command: RoutedCommand): Violation[];
  /** Returns the canonical spelling of a device id on this transport; undefined if it is invalid. */
  findClientDeviceId(text: string): string | undefined;
  /** Describes the form of such an id. */
  readonly clientDeviceIdForm: string;
}
