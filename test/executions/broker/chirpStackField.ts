import type { Clock } from '../../../src/kernel/clock';
import { ChirpStackServer } from '../../support/chirpStack/chirpStackServer';
import type { FieldCommand } from './mqttField';

export const APPLICATION_ID = '3f2504e0-4f89-41d3-9a0c-0305e82c3301';

/** The devices of a site behind a ChirpStack: a test says what they do. */
export class ChirpStackField {
  /** Where the uplinks hold the level. */
  readonly levelPath = 'object.level';

  private constructor(readonly server: ChirpStackServer) {}

  static async start(url: string, clock: Clock, encoding: 'json' | 'protobuf' = 'json'): Promise<ChirpStackField> {
    const server = new ChirpStackServer({ url, applicationId: APPLICATION_ID, encoding, now: () => clock.now() });
    await server.start();
    return new ChirpStackField(server);
  }

  get commands(): FieldCommand[] {
    return this.server.commands.map(({ id, devEui, object }) => ({ executionId: id, clientDeviceId: devEui, payload: object ?? {} }));
  }

  /** The n-th command (from 1) that came into the queue of a device; waits for it. */
  async command(clientDeviceId: string, count: number): Promise<FieldCommand> {
    const found = (): FieldCommand | undefined => this.commands.filter((one) => one.clientDeviceId === clientDeviceId)[count - 1];
    await this.server.until(() => found() !== undefined);
    return found() as FieldCommand;
  }

  /** The device of a command sends without saying anything, which opens its receive window, and a gateway sends the command. */
  async deliver({ clientDeviceId }: FieldCommand): Promise<void> {
    await this.server.uplink(clientDeviceId, { object: { hello: true } });
    await this.server.txAck(clientDeviceId);
  }

  /** A device shows something. Resolves when the broker has it. */
  async show(clientDeviceId: string, object: Readonly<Record<string, unknown>>): Promise<void> {
    await this.server.uplink(clientDeviceId, { object });
  }

  /** A device acknowledges a confirmed command with its next frame, or does not; the frame shows this. */
  async answer({ clientDeviceId }: FieldCommand, isOk: boolean, shown: Readonly<Record<string, unknown>>): Promise<void> {
    await this.server.uplink(clientDeviceId, { object: shown, acknowledges: isOk });
  }

  async stop(): Promise<void> {
    await this.server.stop();
  }
}

/** What a connection to such a network server is configured with. */
export function chirpStackConfiguration(url: string, encoding: 'json' | 'protobuf' = 'json'): Readonly<Record<string, unknown>> {
  return { url, protocol: '3.1.1', applicationId: APPLICATION_ID, encoding };
}
