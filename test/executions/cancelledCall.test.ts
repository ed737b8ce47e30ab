import type { ClientUnaryCall } from '@grpc/grpc-js';
import type { EncodeRequest } from '../../src/codec';
import type { Encoder } from '../../src/commands';
import {
  ExecuteCommandRequest,
  ListExecutionsRequest,
  PreviewEncoderRequest,
} from '../../src/gen/actuator_command/v2/actuator_command_service';
import { call, headers } from '../support/edge';
import { engines, type TestDatabase } from '../support/engines';
import { AS_ONE, type ExecutionFixture, prepare, startExecutionFixture, type Target } from './executionFixture';

const ignore = (): void => {};

interface Waiting {
  readonly request: EncodeRequest;
  /** Resolves with the reason of the cancellation. */
  readonly dropped: Promise<unknown>;
}

describe.each(engines().slice(0, 1))('a call that its caller cancelled', ({ createDatabase }) => {
  const customEncoder = 'function encodeDownlink() { return []; }';
  let db: TestDatabase;
  let fixture: ExecutionFixture;
  let target: Target;
  let onWaiting: (waiting: Waiting) => void;
  // An encoder that never runs.
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
    fixture = await startExecutionFixture(db.database, undefined, encoder);
    target = await fixture.target({ command: { mode: 2, directPayload: undefined, customEncoder } });
  });
  afterAll(async () => {
    await fixture.stop();
    await db.drop();
  });
  /** Returns the owner of the encoder request that waited for the call, and the reason of its cancellation. */
  async function cancelWhileWaiting(begin: () => ClientUnaryCall): Promise<[string, unknown]> {
    const waits = new Promise<Waiting>((resolve) => (onWaiting = resolve));
    const running = begin();
    const { request, dropped } = await waits;
    running.cancel();
    return [request.owner, await dropped];
  }

  it('stops waiting for the encoder of an execution and stores nothing', async () => {
    const request = ExecuteCommandRequest.fromPartial({ id: target.deviceId, commandId: target.commandId });
    expect(await cancelWhileWaiting(() => fixture.client.executeCommand(request, headers(AS_ONE), ignore))).toEqual([
      'org-1',
      expect.objectContaining({ reason: 'cancelled' }),
    ]);
    expect(
      await call(
        fixture.client.listExecutions.bind(fixture.client),
        ListExecutionsRequest.fromPartial({ id: target.deviceId }),
        AS_ONE,
      ),
    ).toMatchObject({ items: [] });
  });

  it('stops waiting for the encoder of a preview, which holds no place in the queue of executions', async () => {
    const request = PreviewEncoderRequest.fromPartial({ id: target.deviceId, customEncoder });
    expect(await cancelWhileWaiting(() => fixture.client.previewEncoder(request, headers(AS_ONE), ignore))).toEqual([
      'org-1:preview',
      expect.objectContaining({ reason: 'cancelled' }),
    ]);
  });
});
