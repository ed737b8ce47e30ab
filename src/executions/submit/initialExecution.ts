/**
 * The initial fields of every execution: enqueued, without history. Its delivery deadline and update time are set
 * elsewhere.
 */
export const INITIAL_EXECUTION = {
  rejectionReason: undefined,
  violations: [],
  state: 'enqueued',
  detail: '',
  detailMessage: '',
  evidence: undefined,
  attempts: 0,
  holdsSlot: false,
  notBefore: undefined,
  sentTo: undefined,
  sentBoot: undefined,
  tAck: undefined,
  tConv: undefined,
  tQuery: undefined,
  dispatchedAt: undefined,
  deliveredAt: undefined,
  deliveredArrival: undefined,
  peerDeliveredAt: undefined,
  peerDeliveredBy: undefined,
  deliveredFCnt: undefined,
  deliveredDevAddr: undefined,
  queriesSent: 0,
  finishedAt: undefined,
  version: 1,
  eventCount: 1,
} as const;
