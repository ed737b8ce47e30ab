import type { Violation } from '../kernel/errors';

/** A free-form JSON object. */
export type JsonObject = Readonly<Record<string, unknown>>;

/** What a connector can do. */
export type Capability = 'uplink' | 'downlink' | 'native_ack' | 'withdraw';

/** A kind of transport to devices: what the catalogue shows of it, and the rules that its connections and devices follow. */
export interface ConnectorType {
  /** What a connection names as its connector. */
  readonly id: string;
  /** The kind of the state machine that its executions follow. */
  readonly type: string;
  readonly name: string;
  readonly description: string;
  readonly capabilities: readonly Capability[];
  /** JSON Schema (2020-12) of a connection's configuration. */
  readonly configurationSchema: JsonObject;
  /** JSON Schema (2020-12) of a physical device's configuration. */
  readonly deviceConfigurationSchema: JsonObject;
  /** The fields of the configuration that are write-only. */
  readonly secretFields: readonly string[];
  /** What is wrong with a connection's configuration; paths begin with `configuration`. */
  checkConfiguration(configuration: JsonObject): Violation[];
  /** What is wrong with a physical device's configuration; paths begin with `physicalDevice.configuration`. */
  checkDeviceConfiguration(configuration: JsonObject): Violation[];
  /** The one spelling of a device's id on this transport; undefined if it can be none. */
  findClientDeviceId(text: string): string | undefined;
  /** What such an id looks like, in words. */
  readonly clientDeviceIdForm: string;
}
