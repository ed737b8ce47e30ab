import type { ClientUnaryCall } from '@grpc/grpc-js';
import type { EncodeRequest } from '../../src/codec';
import type { Encoder } from '../../src/commands';
import { ExecuteCommandRequest, ListExecutionsRequest, PreviewEncoderRequest } from '../../src/gen/actuator_command/v2/actuator_command_service';
import { call, headers } from '../support/edge';
import { engines, type TestDatabase } from '../support/engines';
import { AS_ONE, type ExecutionRoom, prepare, startExecutionRoom, type Target } from './executionRoom';

const ignore = (): void => {};

interface Waiting {
  readonly request: EncodeRequest;
  /** Resolves with why it was given up. */
  readonly dropped: Promise<unknown>;
}

describe.each(engines().slice(0, 1))('a caller who went away', ({ createDatabase }) => {
  const customEncoder = 'function encodeDownlink() { return []; }';
  let db: TestDatabase;
  let room: ExecutionRoom;
  let target: Target;
  let onWaiting: (waiting: Waiting) => void;
  // One whose turn never comes.
  const encoder: Encoder = {
    encode: async (request, signal) =>
      await new Promise((_resolve, reject) => {
        const dropped = new Promise((resolve) => {
          signal?.addEventListener('abort', () => {
            resolve(signal.reason);
            reject(signal.reason as Error);
          });
        });
        onWaiting({ request, dropped });
      }),
  };
  beforeAll(async () => {
    db = await createDatabase();
    await prepare(db.database);
    room = await startExecutionRoom(db.database, undefined, encoder);
    target = await room.target({ command: { mode: 2, directPayload: undefined, customEncoder } });
  });
  afterAll(async () => {
    await room.stop();
    await db.drop();
  });
  /** The owner of what waited for the call, and why it was given up. */
  async function cancelled(begin: () => ClientUnaryCall): Promise<[string, unknown]> {
    const waits = new Promise<Waiting>((resolve) => (onWaiting = resolve));
    const running = begin();
    const { request, dropped } = await waits;
    running.cancel();
    return [request.owner, await dropped];
  }

  it('waits no longer for an encoder of an execution, and nothing is stored', async () => {
    const request = ExecuteCommandRequest.fromPartial({ id: target.deviceId, commandId: target.commandId });
    expect(await cancelled(() => room.client.executeCommand(request, headers(AS_ONE), ignore))).toEqual(['org-1', expect.objectContaining({ reason: 'cancelled' })]);
    expect(await call(room.client.listExecutions.bind(room.client), ListExecutionsRequest.fromPartial({ id: target.deviceId }), AS_ONE)).toMatchObject({ items: [] });
  });

  it('waits no longer for the encoder of a preview, which holds no turn of the executions', async () => {
    const request = PreviewEncoderRequest.fromPartial({ id: target.deviceId, customEncoder });
    expect(await cancelled(() => room.client.previewEncoder(request, headers(AS_ONE), ignore))).toEqual(['org-1:preview', expect.objectContaining({ reason: 'cancelled' })]);
  });
});
