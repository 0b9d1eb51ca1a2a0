/**
 * The types of the client agree with the types of the service, or this file does not compile. The test that compiles it
 * (tests/serve/client/test_typescript.py) makes `openapi.ts` from the OpenAPI document. `npm test` leaves it out.
 */
import type * as client from "../src/client.js";
import type * as service from "./openapi.js";

type Same<A, B> = [A] extends [B] ? ([B] extends [A] ? true : false) : false;
type Fits<A, B> = [A] extends [B] ? true : false;
type Holds<T extends true> = T;
type Asked = client.Round & { k?: number | null };

export type Agreement = [
  // Whatever the service accepts can be asked, and nothing else.
  Holds<Same<keyof service.DecideRequest, keyof Asked>>,
  Holds<Fits<service.DecideRequest, Asked>>,
  Holds<Same<keyof service.Offer, keyof client.Offer>>,
  Holds<Same<keyof service.Reward, keyof client.Reward>>,
  Holds<Fits<service.Reward, client.Reward>>,
  // Whatever the service answers can be read.
  Holds<Same<keyof service.Decided, keyof client.Decision>>,
  Holds<Fits<service.Decided, client.Decision>>,
  Holds<Same<keyof service.PortfolioStatus, keyof client.Status>>,
  Holds<Fits<service.PortfolioStatus, client.Status>>,
  Holds<Same<keyof service.Problem, keyof client.Problem>>,
  Holds<Fits<service.Problem, client.Problem>>,
  Holds<Fits<service.Line, client.Line>>,
  Holds<Fits<Omit<service.DecisionLine, "slots">, client.Line>>,
  Holds<Fits<service.Slate, { slots: client.Decision[] }>>,
];
