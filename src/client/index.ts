export type { ClientStreamMethod, Request, ServerStreamMethod, ServiceClient, UnaryMethod } from './calls/definitions';
export type { CallOptions, ClientOptions, RetryOptions, ServerOptions } from './options';
export { PlantroomError, type FieldViolation, type PlantroomErrorFacts } from './plantroomError';
