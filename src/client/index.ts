export { createPlantroomClient, type PlantroomClient } from './createPlantroomClient';
export type { ClientStreamMethod, Request, ServerStreamMethod, ServiceClient, UnaryMethod } from './calls/definitions';
export type { CallOptions, ClientOptions, RetryOptions, ServerOptions } from './options';
export { isPlantroomError, PlantroomError, type FieldViolation, type PlantroomErrorFacts } from './plantroomError';
export * from './pages';
export * from './streams';
