export { EXECUTION_STATES, type ExecutionState, type ShownExecution, isFinal } from './execution';
export { createExecutionHandlers } from './executionHandlers';
export { deleteOldExecutions } from './deleteOldExecutions';
export { Executions, type ExecutionStep } from './executions';
export { ExecutionService } from './executionService';
export { expireRestoredExecutions } from './restored/expireRestored';
export { ExecutionRemovalRepository } from './store/executionRemovalRepository';
export type { Reading, SampleTimes } from './evidence/sensorComparison';
export type { UplinkSample } from './evidence/sensorEvidence';
