export { EXECUTION_STATES, type Execution, type ExecutionLogEntry, type ExecutionState, type ShownExecution, isFinal } from './execution';
export { executionHandlers, type ExecutionHandlers } from './executionHandlers';
export { Executions, type ExecutionsOptions } from './executions';
export { ExecutionService, type ExecuteOutcome, type ExecutionPage } from './executionService';
export { ExecutionWatch, type WatchItem, type WatchQuery } from './watch/executionWatch';
export { ExecutionRemovalRepository } from './store/executionRemovalRepository';
export type { SubmitRequest } from './submit/submission';
export type { Reading, SampleTimes } from './evidence/sensorComparison';
export type { SensedUplink } from './evidence/sensorEvidence';
