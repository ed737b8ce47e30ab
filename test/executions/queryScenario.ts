import type { ConnectionPolicy } from '../../src/connections';
import type { Database } from '../../src/database';
import { ExecutionRepository } from '../../src/executions/store/executionRepository';
import type { ExecutionFixture, Target, TargetOptions } from './executionFixture';
import { TestGateway } from './testGateway';

/** A command with a parameter `n`, so that it can be executed repeatedly without duplicates. */
export const LEVEL = { paramsSchema: { n: { type: 2, enum: [], default: 0 } } as never };

/**
 * An execution that queries the device's state after its acknowledgement, and the executions of both tries of the
 * query.
 */
export interface QueryScenario {
  readonly connectionId: string;
  readonly target: Target;
  readonly gateway: TestGateway;
  readonly executionId: string;
  readonly tries: readonly [string, string];
}

/** Executes a command with a query, and resolves when it was sent to its gateway. */
export async function startQueryScenario(
  fixture: ExecutionFixture,
  database: Database,
  options: TargetOptions & { readonly policy?: ConnectionPolicy } = {},
): Promise<QueryScenario> {
  const connectionId = await fixture.connection({ policy: options.policy ?? {} });
  const plainTarget = await fixture.target({ connectionId, ...options });
  const queryCommandId = await fixture.addCommand(plainTarget.deviceId, {
    name: 'Ask',
    directPayload: '{"ask": "{{execution.id}}"}',
  });
  const expected = options.expects
    ? { expectedSensorStates: [{ sensorId: plainTarget.sensorId, valueTemplate: '21' }] }
    : {};
  const target = {
    ...plainTarget,
    commandId: await fixture.addCommand(plainTarget.deviceId, {
      verificationStrategy: 3,
      queryCommandId,
      ...LEVEL,
      ...expected,
      ...options.command,
    }),
  };
  const gateway = await TestGateway.attach(fixture, { connectionId });
  const { executionId } = await fixture.execute(target);
  await gateway.command(1);
  const { query } = await new ExecutionRepository(database.db).get('org-1', executionId);
  fixture.clock.advance(1);
  const [first, second] = query?.tries ?? [];
  return { connectionId, target, gateway, executionId, tries: [first?.executionId ?? '', second?.executionId ?? ''] };
}
