import type { BrokerTarget } from '../broker/brokerFlags';
import { PlayedLink, type LinkTimes, type PlayedMessage } from '../broker/playedLink';
import type { Answer, OnPlayed } from '../playing';
import type { DeviceAnswer, SimulatedDevice } from '../simulatedDevices';

/** What the devices do. All times are milliseconds, all topics templates with `{clientDeviceId}`. */
export interface MqttDevicesOptions {
  readonly broker: BrokerTarget;
  readonly devices: readonly SimulatedDevice[];
  readonly uplinkTopic: string;
  readonly commandTopic: string;
  /** Where commands are answered that have an `id` and no response topic. */
  readonly answerTopic: string;
  /** Between two uplinks of a device; 0: only after a command. */
  readonly uplinkIntervalMs: number;
  /** From a command to the device's answer. */
  readonly answerDelayMs: number;
  readonly answer: Answer;
  readonly times?: LinkTimes;
}

/** Plays devices that speak MQTT with a broker, until `signal` aborts. Rejects with `simulator_refused` when the broker will never let them in. */
export async function runMqttDevices(options: MqttDevicesOptions, signal: AbortSignal, onEvent: OnPlayed): Promise<void> {
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
  /** The `id` of its JSON; undefined: none. */
  readonly id: unknown;
  readonly message: PlayedMessage;
}

class MqttDevices {
  private readonly link: PlayedLink;
  private readonly byTopic: ReadonlyMap<string, SimulatedDevice>;
  private readonly timers = new Set<NodeJS.Timeout>();

  constructor(
    private readonly options: MqttDevicesOptions,
    private readonly onEvent: OnPlayed,
  ) {
    this.byTopic = new Map(options.devices.map((device) => [topicOf(options.commandTopic, device), device]));
    const use = { filters: [...this.byTopic.keys()], message: (message: PlayedMessage) => this.take(message), up: () => this.startMeasuring() };
    this.link = new PlayedLink(options.broker, use, onEvent, options.times);
  }

  async run(signal: AbortSignal): Promise<void> {
    await this.link.run(signal);
  }

  close(): void {
    for (const timer of this.timers) clearTimeout(timer);
  }

  private startMeasuring(): void {
    const { devices, uplinkIntervalMs } = this.options;
    if (uplinkIntervalMs === 0) return;
    for (const device of devices) this.measure(device);
    if (this.timers.size > 0) return; // the link came back
    for (const device of devices) this.timers.add(setInterval(() => this.measure(device), uplinkIntervalMs));
  }

  private take(message: PlayedMessage): void {
    const device = this.byTopic.get(message.topic);
    if (!device) return;
    const { id, payload } = contentOf(message.payload);
    const shown = payload instanceof Uint8Array ? Buffer.from(payload).toString('hex') : payload;
    this.report('command.taken', { device: device.clientDeviceId, topic: message.topic, payload: shown, ...(id !== undefined && { id }) });
    const timer = setTimeout(() => {
      this.timers.delete(timer);
      this.act({ device, payload, id, message });
    }, this.options.answerDelayMs);
    this.timers.add(timer);
  }

  private act(command: Command): void {
    const { device, payload } = command;
    if (this.options.answer === 'no_answer') return this.report('command.ignored', { device: device.clientDeviceId });
    const refused: DeviceAnswer = { ok: false, code: 'rejected_on_request', message: 'the simulator was told to reject commands' };
    const answer = this.options.answer === 'reject' ? refused : device.act(payload);
    this.reply(command, answer);
    if (answer.ok) this.measure(device);
  }

  /** By the response topic of the command, else by the answer topic if it has an id, else not at all. */
  private reply({ device, id, message }: Command, answer: DeviceAnswer): void {
    const words = { status: answer.ok ? 'ok' : answer.code, message: answer.message };
    const { responseTopic, correlationData } = message;
    const to = responseTopic ?? (id === undefined ? undefined : topicOf(this.options.answerTopic, device));
    this.report('command.answered', { device: device.clientDeviceId, ...words, ...(to !== undefined && { topic: to }) });
    if (responseTopic !== undefined) this.link.publish(responseTopic, JSON.stringify(words), correlationData && { correlationData });
    else if (to !== undefined) this.link.publish(to, JSON.stringify({ id, ...words }));
  }

  private measure(device: SimulatedDevice): void {
    const values = device.read();
    const topic = topicOf(this.options.uplinkTopic, device);
    const isSent = this.link.publish(topic, JSON.stringify(values));
    this.report(isSent ? 'uplink.sent' : 'uplink.dropped', { device: device.clientDeviceId, topic, values });
  }

  private report(event: string, fields: Readonly<Record<string, unknown>>): void {
    this.onEvent({ event, time: Date.now(), fields });
  }
}

function topicOf(template: string, { clientDeviceId }: SimulatedDevice): string {
  return template.replaceAll('{clientDeviceId}', clientDeviceId);
}

/** An object of JSON, less its `id`; anything else is bytes. */
function contentOf(bytes: Buffer): { readonly id: unknown; readonly payload: unknown } {
  try {
    const value = JSON.parse(bytes.toString()) as unknown;
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return { id: undefined, payload: new Uint8Array(bytes) };
    const { id, ...payload } = value as Readonly<Record<string, unknown>>;
    return { id, payload };
  } catch {
    return { id: undefined, payload: new Uint8Array(bytes) };
  }
}
