export { createPlantroomClient, type PlantroomClient } from './createPlantroomClient';
export type { ClientStreamMethod, Request, ServerStreamMethod, ServiceClient, UnaryMethod } from './calls/definitions';
export type { CallOptions, ClientOptions, RetryOptions, ServerOptions } from './options';
export { isPlantroomError, PlantroomError, type FieldViolation, type PlantroomErrorFacts } from './plantroomError';
export { paginate, paginatePages, type PageItem, type Page, type PageRequest } from './pages/pages';
export {
  executeAndWait,
  watchExecution,
  isFinal,
  waitForExecution,
  type ExecuteCommandClient,
  type WatchExecutionClient,
  type WaitOptions,
} from './streams/watchExecution';
export { streamReadings, type StreamReadingsClient } from './streams/streamReadings';
export { watchConnectionStatus, type WatchConnectionStatusClient } from './streams/watchConnectionStatus';
export { watchExecutions, type ExecutionUpdate, type WatchExecutionsClient } from './streams/watchExecutions';
export type { LinkOptions, WatchOptions } from './streams/watchOptions';
