export type { Command, CommandDefinition, VerificationStrategy } from './command';
export { commandHandlers } from './commandHandlers';
export { createMissingCommandsQuery } from './commandRepository';
export { CommandRepository } from './commandRepository';
export { CommandService } from './commandService';
export {
  ENCODED_TEMPLATE,
  renderDirectPayload,
  renderEncoderInput,
  renderExpectedStates,
  type TemplateExecution,
  type TemplateValues,
} from './commandTemplates';
export { getDeviceVariables, formatEncoderError, runEncoder, type Encoder, type Variables } from './encoder';
export { EncoderPreviewService } from './encoderPreview';
export { evaluateParams, hashParams } from './params';
export type { ParamSchema } from './paramSchema';
export { findSensorUses, countCommandUses } from './sensorUses';
