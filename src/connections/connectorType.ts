import type { Violation } from '../kernel/errors';

/** A free-form JSON object. */
export type JsonObject = Readonly<Record<string, unknown>>;

/** The dialect that the schemas of connectors are written in. */
export const SCHEMA_DIALECT = 'https://json-schema.org/draft/2020-12/schema';

/** What carries a command; decides which evidence there can be. */
export const CONNECTOR_KINDS = ['gateway', 'mqtt', 'mqtt_answer', 'chirpstack', 'chirpstack_confirmed'] as const;

/** One of CONNECTOR_KINDS. `mqtt_answer` has an answer mapping, `chirpstack_confirmed` a confirmed downlink. */
export type ConnectorKind = (typeof CONNECTOR_KINDS)[number];

/** What a connector looks at of a command that is to be sent. */
export interface RoutedCommand {
  readonly clientDeviceId: string;
  readonly mode: 'direct' | 'encoded';
  /** Empty: none. */
  readonly topic: string;
  readonly fPort: number | undefined;
  readonly confirmed: boolean;
}

/** What a connector can do. */
export type Capability = 'uplink' | 'downlink' | 'native_ack' | 'withdraw';

/** A kind of transport to devices: what the catalogue shows of it, and the rules that its connections and devices follow. */
export interface ConnectorType {
  /** What a connection names as its connector. */
  readonly id: string;
  /** What sort of transport it is, for people who choose one. */
  readonly type: string;
  readonly name: string;
  readonly description: string;
  readonly capabilities: readonly Capability[];
  /** JSON Schema (2020-12) of a connection's configuration. */
  readonly configurationSchema: JsonObject;
  /** JSON Schema (2020-12) of a physical device's configuration. */
  readonly deviceConfigurationSchema: JsonObject;
  /** The members of the configuration that are write-only; top-level ones, and in its schema too. */
  readonly secretFields: readonly string[];
  /** The members of the configuration that say where the secrets are sent, and how the other side proves that it is that; top-level ones, none of them secret. Once one changes, stored secrets are used no more. */
  readonly secretPlaceFields: readonly string[];
  /** What is wrong with a connection's configuration together with its secret fields, that its schema cannot say and allows; paths begin with `configuration`. */
  checkConfiguration(configuration: JsonObject): Violation[];
  /** The same of a physical device's configuration; paths begin with `physicalDevice.configuration`. */
  checkDeviceConfiguration(configuration: JsonObject): Violation[];
  /** The kind of the state machine that a command over a connection with this configuration follows. */
  kindOf(configuration: JsonObject, confirmed: boolean): ConnectorKind;
  /** What keeps a command from being sent over a connection with this configuration; paths begin with `command`. */
  checkCommand(configuration: JsonObject, command: RoutedCommand): Violation[];
  /** The one spelling of a device's id on this transport; undefined if it can be none. */
  findClientDeviceId(text: string): string | undefined;
  /** What such an id looks like, in words. */
  readonly clientDeviceIdForm: string;
}
