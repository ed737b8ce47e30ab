export { createScopeQueries, ResourceAccessGuard } from './resourceAccessGuard';
