import type { BrokerTarget } from '../broker/brokerFlags';
import { SimulatedBrokerConnection, type LinkTimes, type SimulatedMessage } from '../broker/simulatedBrokerConnection';
import type { Answer, OnSimulatedEvent } from '../simulation';
import type { DeviceAnswer, SimulatedDevice } from '../simulatedDevices';

/**
 * The options of the simulated MQTT devices. All times are milliseconds, all topics templates with `{clientDeviceId}`.
 */
export interface MqttDevicesOptions {
  readonly broker: BrokerTarget;
  readonly devices: readonly SimulatedDevice[];
  readonly uplinkTopic: string;
  readonly commandTopic: string;
  /** The topic for responses to commands with an `id` and without a response topic. */
  readonly answerTopic: string;
  /** Between two uplinks of a device; 0: only after a command. */
  readonly uplinkIntervalMs: number;
  /** From a command to the response of the device. */
  readonly answerDelayMs: number;
  readonly answer: Answer;
  readonly times?: LinkTimes;
}

/**
 * Simulates MQTT devices on a broker until `signal` aborts. Rejects with `connection_refused` if the broker rejects
 * them permanently.
 */
export async function runMqttDevices(
  options: MqttDevicesOptions,
  signal: AbortSignal,
  onEvent: OnSimulatedEvent,
): Promise<void> {
  const devices = new MqttDevices(options, onEvent);
  try {
    await devices.run(signal);
  } finally {
    devices.close();
  }
}

interface Command {
  readonly device: SimulatedDevice;
  readonly payload: unknown;
  /** The `id` field of its JSON; undefined if there is none. */
  readonly id: unknown;
  readonly message: SimulatedMessage;
}

class MqttDevices {
  private readonly link: SimulatedBrokerConnection;
  private readonly deviceByTopic: ReadonlyMap<string, SimulatedDevice>;
  private readonly timers = new Set<NodeJS.Timeout>();

  constructor(
    private readonly options: MqttDevicesOptions,
    private readonly onEvent: OnSimulatedEvent,
  ) {
    this.deviceByTopic = new Map(options.devices.map((device) => [getTopic(options.commandTopic, device), device]));
    const handlers = {
      filters: [...this.deviceByTopic.keys()],
      onMessage: (message: SimulatedMessage) => this.handleCommand(message),
      onConnected: () => this.startSending(),
    };
    this.link = new SimulatedBrokerConnection(options.broker, handlers, onEvent, options.times);
  }

  async run(signal: AbortSignal): Promise<void> {
    await this.link.run(signal);
  }

  close(): void {
    for (const timer of this.timers) clearTimeout(timer);
  }

  /**
   * Sends a reading of each device after every connect. The intervals are started once, and continue while the link is
   * down.
   */
  private startSending(): void {
    const { devices, uplinkIntervalMs } = this.options;
    if (uplinkIntervalMs === 0) return;
    for (const device of devices) this.sendReading(device);
    if (this.timers.size > 0) return; // already started: the link was reconnected
    for (const device of devices) this.timers.add(setInterval(() => this.sendReading(device), uplinkIntervalMs));
  }

  /** Reports a command, and executes it after the delay. */
  private handleCommand(message: SimulatedMessage): void {
    const device = this.deviceByTopic.get(message.topic);
    if (!device) return;
    const { id, payload } = parseCommand(message.payload);
    const formattedPayload = payload instanceof Uint8Array ? Buffer.from(payload).toString('hex') : payload;
    this.report('command.taken', {
      device: device.clientDeviceId,
      topic: message.topic,
      payload: formattedPayload,
      ...(id !== undefined && { id }),
    });
    const timer = setTimeout(() => {
      this.timers.delete(timer);
      this.executeCommand({ device, payload, id, message });
    }, this.options.answerDelayMs);
    this.timers.add(timer);
  }

  /** Executes a command on its device, responds, and sends the new state. */
  private executeCommand(command: Command): void {
    const { device, payload } = command;
    if (this.options.answer === 'no_answer') return this.report('command.ignored', { device: device.clientDeviceId });
    const rejection: DeviceAnswer = {
      ok: false,
      code: 'simulated_rejection',
      message: 'the simulator is configured to reject commands',
    };
    const answer = this.options.answer === 'reject' ? rejection : device.act(payload);
    this.reply(command, answer);
    if (answer.ok) this.sendReading(device);
  }

  /** Responds on the response topic of the command, or on the answer topic if the command has an id, or not at all. */
  private reply({ device, id, message }: Command, answer: DeviceAnswer): void {
    const content = { status: answer.ok ? 'ok' : answer.code, message: answer.message };
    const { responseTopic, correlationData } = message;
    const answerTopic = responseTopic ?? (id === undefined ? undefined : getTopic(this.options.answerTopic, device));
    this.report('command.answered', {
      device: device.clientDeviceId,
      ...content,
      ...(answerTopic !== undefined && { topic: answerTopic }),
    });
    if (responseTopic !== undefined)
      this.link.publish(responseTopic, JSON.stringify(content), correlationData && { correlationData });
    else if (answerTopic !== undefined) this.link.publish(answerTopic, JSON.stringify({ id, ...content }));
  }

  private sendReading(device: SimulatedDevice): void {
    const values = device.read();
    const topic = getTopic(this.options.uplinkTopic, device);
    const isSent = this.link.publish(topic, JSON.stringify(values));
    this.report(isSent ? 'uplink.sent' : 'uplink.dropped', { device: device.clientDeviceId, topic, values });
  }

  private report(event: string, fields: Readonly<Record<string, unknown>>): void {
    this.onEvent({ event, time: Date.now(), fields });
  }
}

function getTopic(template: string, { clientDeviceId }: SimulatedDevice): string {
  return template.replaceAll('{clientDeviceId}', clientDeviceId);
}

/** Parses a command: a JSON object, from which its `id` is separated; any other payload is bytes. */
function parseCommand(bytes: Buffer): { readonly id: unknown; readonly payload: unknown } {
  try {
    const value = JSON.parse(bytes.toString()) as unknown;
    if (typeof value !== 'object' || value === null || Array.isArray(value))
      return { id: undefined, payload: new Uint8Array(bytes) };
    const { id, ...payload } = value as Readonly<Record<string, unknown>>;
    return { id, payload };
  } catch {
    return { id: undefined, payload: new Uint8Array(bytes) };
  }
}
