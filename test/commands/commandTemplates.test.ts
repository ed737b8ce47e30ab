import { renderDirectPayload, renderExpectedStates } from '../../src/commands';
import { InsertionBudget } from '../../src/kernel/jsonTemplate';
import type { JsonObject } from '../../src/kernel/jsonValue';
import { command } from './definition';

// Inherited properties of the caller's objects must stay unreachable.
const DEVICE = { id: 'device-1', name: 'Valve "1"', clientDeviceId: 'aa', secret: 'no' };
const EXECUTION = { id: 'execution-1', triggerId: 'trigger-1', enqueuedAt: '2026-01-02T03:04:05.678Z' };
const values = (params: JsonObject) => ({
  params,
  device: DEVICE,
  execution: EXECUTION,
  budget: new InsertionBudget(),
});

describe('the payload of a direct command', () => {
  it('uses parameters, the device and the execution', () => {
    const directPayload =
      '{"p": {{params.position}}, "d": "{{device.name}}", "c": "{{device.clientDeviceId}}/{{execution.id}}", "t": "{{execution.triggerId}}", "at": "{{execution.enqueuedAt}}"}';
    expect(renderDirectPayload(command({ directPayload }), values({ position: 40 }))).toEqual({
      payload: { p: 40, d: 'Valve "1"', c: 'aa/execution-1', t: 'trigger-1', at: '2026-01-02T03:04:05.678Z' },
      violations: [],
    });
  });

  it('reports each path without a value', () => {
    const { payload, violations } = renderDirectPayload(
      command({ directPayload: '[{{params.list[2]}}, {{device.secret}}]' }),
      values({ list: [] }),
    );
    expect(payload).toBeUndefined();
    expect(violations.map((violation) => violation.field)).toEqual(['params.list[2]', 'device.secret']);
  });
});

describe('the expected states', () => {
  it('keep the types of their values', () => {
    const expectedSensorStates = [
      { sensorId: 's1', valueTemplate: '{{params.position}}' },
      { sensorId: 's2', valueTemplate: 'valve {{params.position}} %' },
      { sensorId: 's3', valueTemplate: 'true' },
    ];
    expect(renderExpectedStates(command({ expectedSensorStates }), values({ position: 40 }))).toEqual({
      expected: [
        { sensorId: 's1', value: 40 },
        { sensorId: 's2', value: 'valve 40 %' },
        { sensorId: 's3', value: true },
      ],
      violations: [],
    });
  });

  it('report all paths without a value', () => {
    const expectedSensorStates = ['{{params.a}}', '1', '{{params.b}}'].map((valueTemplate, at) => ({
      sensorId: `s${at}`,
      valueTemplate,
    }));
    expect(
      renderExpectedStates(command({ expectedSensorStates }), values({})).violations.map(
        (violation) => violation.field,
      ),
    ).toEqual(['params.a', 'params.b']);
  });
});
