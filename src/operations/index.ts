export { OrganizationRemoval } from './organizationRemoval';
export { ReachGate, reachQueries, type ReachQueries } from './reachGate';
export { removalSteps, type RemovalStep } from './removalSteps';
