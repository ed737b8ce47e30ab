export type { Command, CommandDefinition, CommandMode, ExpectedSensorState, VerificationStrategy } from './command';
export { commandHandlers, type CommandHandlers } from './commandHandlers';
export { CommandRepository } from './commandRepository';
export { CommandService, type CommandOptions, type CommandPage, type CommandQuery } from './commandService';
export { renderDirect, renderExpected, type RenderedState, type TemplateDevice, type TemplateExecution } from './commandTemplates';
export { evaluateParams, paramsHash, type EvaluatedParams } from './params';
export type { ParamSchema, ParamsSchema, ParamType } from './paramSchema';
export { sensorsInUse, valueTypeUses } from './sensorUses';
