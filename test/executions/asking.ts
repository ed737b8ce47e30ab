import type { ConnectionPolicy } from '../../src/connections';
import type { Database } from '../../src/database';
import { ExecutionRepository } from '../../src/executions/store/executionRepository';
import type { ExecutionRoom, Target, TargetOptions } from './executionRoom';
import { TestGateway } from './testGateway';

/** A command with a parameter `n`, so that it can be executed often at once. */
export const LEVEL = { paramsSchema: { n: { type: 2, enum: [], default: 0 } } as never };

/** An execution that asks for the device's state once it is acknowledged, and the two tries of its query. */
export interface Asked {
  readonly connectionId: string;
  readonly target: Target;
  readonly gateway: TestGateway;
  readonly executionId: string;
  readonly tries: readonly [string, string];
}

/** Executes a command with a query; resolves when it has left for its gateway. */
export async function startAsking(room: ExecutionRoom, database: Database, options: TargetOptions & { readonly policy?: ConnectionPolicy } = {}): Promise<Asked> {
  const connectionId = await room.connection({ policy: options.policy ?? {} });
  const plain = await room.target({ connectionId, ...options });
  const queryCommandId = await room.addCommand(plain.deviceId, { name: 'Ask', directPayload: '{"ask": "{{execution.id}}"}' });
  const expected = options.expects ? { expectedSensorStates: [{ sensorId: plain.sensorId, valueTemplate: '21' }] } : {};
  const target = { ...plain, commandId: await room.addCommand(plain.deviceId, { verificationStrategy: 3, queryCommandId, ...LEVEL, ...expected, ...options.command }) };
  const gateway = await TestGateway.attach(room, { connectionId });
  const { executionId } = await room.execute(target);
  await gateway.command(1);
  const { query } = await new ExecutionRepository(database.db).get('org-1', executionId);
  room.clock.advance(1);
  const [first, second] = query?.tries ?? [];
  return { connectionId, target, gateway, executionId, tries: [first?.executionId ?? '', second?.executionId ?? ''] };
}
