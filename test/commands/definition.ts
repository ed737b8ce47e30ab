import type { Command, CommandDefinition, ParamSchema } from '../../src/commands';

/** Returns a parameter without rules; `changes` are the fields that the test is about. */
export function param(overrides: Partial<ParamSchema> = {}): ParamSchema {
  return {
    type: undefined,
    default: undefined,
    description: undefined,
    min: undefined,
    max: undefined,
    enum: [],
    pattern: undefined,
    ...overrides,
  };
}

/**
 * Returns a valid definition in direct mode with one parameter `position`; `changes` are the fields that the test is
 * about.
 */
export function definition(overrides: Partial<CommandDefinition> = {}): CommandDefinition {
  return {
    name: 'Set valve',
    description: undefined,
    mode: 'direct',
    verificationStrategy: 'no_verification',
    paramsSchema: { position: param({ type: 'integer', min: 0, max: 100 }) },
    encodedParamsTemplate: undefined,
    directPayload: '{"position": {{params.position}}}',
    customEncoder: undefined,
    fPort: undefined,
    mqttTopic: undefined,
    confirmed: undefined,
    queryCommandId: undefined,
    expectedSensorStates: [],
    convergenceTimeout: undefined,
    encoderProfileId: undefined,
    ...overrides,
  };
}

/** Returns a command with that definition. */
export function command(overrides: Partial<Command> = {}): Command {
  return {
    ...definition(),
    id: 'command-1',
    organizationId: 'org-1',
    deviceId: 'device-1',
    revision: 1,
    createdAt: 0,
    updatedAt: 0,
    ...overrides,
  };
}
