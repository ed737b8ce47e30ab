import { connectAsync, type MqttClient } from 'mqtt';

/** A command as a device got it. */
export interface FieldCommand {
  readonly executionId: string;
  readonly clientDeviceId: string;
  readonly payload: Readonly<Record<string, unknown>>;
}

/** The devices of a site on an MQTT broker: a test says what they do. */
export class MqttField {
  readonly commands: FieldCommand[] = [];
  /** Where the uplinks hold the level. */
  readonly levelPath = 'level';
  private readonly looking = new Set<() => void>();

  private constructor(private readonly client: MqttClient) {
    client.on('error', () => {}); // the broker went away
    client.on('message', (topic, payload) => {
      const told = JSON.parse(payload.toString()) as { readonly id: string };
      this.commands.push({ executionId: told.id, clientDeviceId: topic.split('/')[1] ?? '', payload: { ...told } });
      for (const look of this.looking) look();
      this.looking.clear();
    });
  }

  static async start(url: string): Promise<MqttField> {
    const client = await connectAsync(url, { clean: false, clientId: 'the-devices', reconnectPeriod: 20 });
    await client.subscribeAsync('plant/+/command', { qos: 1 });
    return new MqttField(client);
  }

  /** The n-th command (from 1) that came to a device; waits for it. */
  async command(clientDeviceId: string, count: number): Promise<FieldCommand> {
    for (;;) {
      const command = this.commands.filter((one) => one.clientDeviceId === clientDeviceId)[count - 1];
      if (command) return command;
      await new Promise<void>((resolve) => this.looking.add(resolve));
    }
  }

  /** The transport brings a command to its device: the broker has done so. */
  async deliver(_command: FieldCommand): Promise<void> {}

  /** A device shows a level. Resolves when the broker has it. */
  async show(clientDeviceId: string, payload: Readonly<Record<string, unknown>>, options: { readonly retain?: boolean } = {}): Promise<void> {
    await this.client.publishAsync(`plant/${clientDeviceId}/up`, JSON.stringify(payload), { qos: 1, ...options });
  }

  /** A device answers a command. */
  async answer({ executionId, clientDeviceId }: FieldCommand, isOk: boolean, _shown: object): Promise<void> {
    await this.client.publishAsync(`plant/${clientDeviceId}/answer`, JSON.stringify({ id: executionId, status: isOk ? 'ok' : 'jammed', message: isOk ? '' : 'it does not move' }), { qos: 1 });
  }

  async stop(): Promise<void> {
    await this.client.endAsync(true);
  }
}

/** What a connection to such a broker is configured with. */
export function mqttConfiguration(url: string, answers: boolean): Readonly<Record<string, unknown>> {
  const answer = { kind: 'topic', answerTopic: 'plant/{clientDeviceId}/answer', correlationPath: 'id', statusPath: 'status', okValues: ['ok'], messagePath: 'message' };
  return { url, protocol: '3.1.1', uplinkTopic: 'plant/{clientDeviceId}/up', downlinkTopic: 'plant/{clientDeviceId}/command', ...(answers && { answer }) };
}
