export { EXECUTION_STATES, type Execution, type ExecutionLogEntry, type ExecutionState, type ShownExecution, isFinal } from './execution';
export { executionHandlers, type ExecutionHandlers } from './executionHandlers';
export { Executions, type ExecutionsOptions } from './executions';
export { ExecutionService, type ExecuteOutcome, type ExecutionPage } from './executionService';
export { ExecutionWatch, type WatchItem, type WatchQuery } from './executionWatch';
export type { SubmitRequest } from './submission';
export type { Reading, SampleTimes } from './sensorComparison';
export type { SensedUplink } from './sensorEvidence';
