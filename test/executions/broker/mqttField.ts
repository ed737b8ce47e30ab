import { connectAsync, type MqttClient } from 'mqtt';
import type { ExecutionFixture } from '../executionFixture';

const TOPICS = { uplinkTopic: 'plant/{clientDeviceId}/up', downlinkTopic: 'plant/{clientDeviceId}/command' };

/** A command as a device received it. */
export interface FieldCommand {
  readonly executionId: string;
  readonly clientDeviceId: string;
  readonly payload: Readonly<Record<string, unknown>>;
}

/** Simulates the devices of a site on an MQTT broker; each test controls them. */
export class MqttField {
  readonly commands: FieldCommand[] = [];
  /** The path of the level in the uplinks. */
  readonly levelPath = 'level';
  private readonly waiting = new Set<() => void>();

  private constructor(private readonly client: MqttClient) {
    client.on('error', () => {}); // The broker is not available.
    client.on('message', (topic, payload) => {
      const message = JSON.parse(payload.toString()) as { readonly id: string };
      this.commands.push({
        executionId: message.id,
        clientDeviceId: topic.split('/')[1] ?? '',
        payload: { ...message },
      });
      for (const resolve of this.waiting) resolve();
      this.waiting.clear();
    });
  }

  static async start(url: string): Promise<MqttField> {
    const client = await connectAsync(url, { clean: false, clientId: 'the-devices', reconnectPeriod: 20 });
    await client.subscribeAsync('plant/+/command', { qos: 1 });
    return new MqttField(client);
  }

  /** Waits for the n-th command (from 1) for a device and returns it. */
  async command(clientDeviceId: string, count: number): Promise<FieldCommand> {
    for (;;) {
      const command = this.commands.filter((one) => one.clientDeviceId === clientDeviceId)[count - 1];
      if (command) return command;
      await new Promise<void>((resolve) => this.waiting.add(resolve));
    }
  }

  /** Reports that the transport delivered a command to its device, as the broker would. */
  async deliver(_command: FieldCommand): Promise<void> {}

  /** Publishes a level of a device. Resolves when the broker has it. */
  async publishUplink(
    clientDeviceId: string,
    payload: Readonly<Record<string, unknown>>,
    options: { readonly retain?: boolean } = {},
  ): Promise<void> {
    await this.client.publishAsync(`plant/${clientDeviceId}/up`, JSON.stringify(payload), { qos: 1, ...options });
  }

  /** Publishes the answer of a device to a command. */
  async answer({ executionId, clientDeviceId }: FieldCommand, isOk: boolean, _data: object): Promise<void> {
    await this.client.publishAsync(
      `plant/${clientDeviceId}/answer`,
      JSON.stringify({ id: executionId, status: isOk ? 'ok' : 'jammed', message: isOk ? '' : 'it does not move' }),
      { qos: 1 },
    );
  }

  async stop(): Promise<void> {
    await this.client.endAsync(true);
  }
}

/** Returns the configuration of a connection to such a broker. */
export function mqttConfiguration(url: string, answers: boolean): Readonly<Record<string, unknown>> {
  const answer = {
    kind: 'topic',
    answerTopic: 'plant/{clientDeviceId}/answer',
    correlationPath: 'id',
    statusPath: 'status',
    okValues: ['ok'],
    messagePath: 'message',
  };
  return {
    url,
    protocol: '3.1.1',
    ...TOPICS,
    ...(answers && { answer }),
  };
}

/** Creates a connection to a broker with the topics of this site. Resolves with its id when it is connected. */
export async function connectMqtt(fixture: ExecutionFixture, url: string, more: object = {}): Promise<string> {
  const connectionId = await fixture.connection({ connectorId: 'mqtt', configuration: { url, ...TOPICS, ...more } });
  await fixture.untilConnected(connectionId);
  return connectionId;
}
