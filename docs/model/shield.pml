/* Copyright The zonelect Authors.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The shield of ../design-migration.md as a Spin model: legacy leader-for-life programs,
 * candidates and the garbage collector around one ConfigMap (CM) and one Lease.
 * README.md says what is assumed; test/suites/model holds the cases and runs them.
 *
 * A slot is a pod's name. Sets of slots are bit masks, slots count from 1.
 * A compare-and-swap is exact: bit i of fcm says that what i knows of the CM is
 * its newest version; every write of others clears it. A request that depends
 * on more than the CM (a list of pods, the Lease) is decided in one step and
 * lands in a later one. Any step may be delayed for any time.
 */

/* ---- the rules of design-migration.md: 1 is as written, 0 is switched off ---- */
#ifndef M1OWN
#define M1OWN 1     /* the presence is owned by its pod */
#endif
#ifndef M1NAME
#define M1NAME 1    /* its name never equals a pod's name */
#endif
#ifndef M1UID
#define M1UID 1     /* a name that is taken is checked by owner UID */
#endif
#ifndef M2
#define M2 2        /* each candidate puts itself among the owners: 2 and perhaps all other candidates */
#endif
#ifndef M3
#define M3 1        /* only the Lease's holder puts up, takes over, arms, takes down */
#endif
#ifndef M4LIST
#define M4LIST 1    /* goes up only when no legacy pod is left */
#endif
#ifndef M4UID
#define M4UID 1     /* the list matches pods and presences by UID */
#endif
#ifndef M4SAME
#define M4SAME 1    /* pods of the candidate revision are not legacy pods, presence or not */
#endif
#ifndef M4TERM
#define M4TERM 1    /* a terminating pod is not gone */
#endif
#ifndef M4CONT
#define M4CONT 1    /* a terminated container is not dead */
#endif
#ifndef M4FIN
#define M4FIN 1     /* finished counts as gone if its kubelet says so; 0 any Failed does; 2 none does */
#endif
#ifndef M4MEM
#define M4MEM 1     /* legacy owners seen are remembered in the shield */
#endif
#ifndef M4NEW
#define M4NEW 1     /* a legacy CM is deleted and recreated; 0 updated, the UID stays */
#endif
#ifndef M5LIST
#define M5LIST 1    /* arm only after a list that follows the shield; 0 with no list */
#endif
#ifndef M5CAS
#define M5CAS 1     /* arm by compare-and-swap on the version read before the list */
#endif
#ifndef M5DOWN
#define M5DOWN 1    /* a legacy pod left: who does not lead takes the shield down */
#endif
#ifndef M6ARMED
#define M6ARMED 1   /* lead only under an armed (or sealed) shield */
#endif
#ifndef M6OWN
#define M6OWN 1     /* ... with its presence in it */
#endif
#ifndef M6FRESH
#define M6FRESH 1   /* ... read after the Lease was won */
#endif
#ifndef M7
#define M7 3        /* settle and read again after its presence first went in: 1 wrote it, 2 each process again, 3 and for each CM */
#endif
#ifndef M8LOOK
#define M8LOOK 1    /* a legacy CM ends the term */
#endif
#ifndef M8EVENTS
#define M8EVENTS 1  /* every event since M6's read counts: 2 since the term began; 0 the latest state alone */
#endif
#ifndef M8AGAIN
#define M8AGAIN 1   /* a vanished CM is made again */
#endif
#ifndef M8BARE
#define M8BARE 1    /* ... unarmed */
#endif
#ifndef M8GAP
#define M8GAP 2     /* after a gap: 1 a CM whose UID this one did not make ends the term; 2 any that the unbroken watch had not shown, or none; 0 nothing */
#endif
#ifndef M8POD
#define M8POD 1     /* own pod gone: stop */
#endif
#ifndef M9ARMED
#define M9ARMED 1   /* only an armed shield is sealed, by the leader */
#endif
#ifndef M9BARE
#define M9BARE 1    /* a sealed CM has no owners */
#endif
#ifndef M9LATER
#define M9LATER 1   /* the later phase of CM and Lease counts; 0 the Lease's */
#endif
#ifndef M9WATCH
#define M9WATCH 1   /* sealed leaders keep M8's watch */
#endif
#ifndef M9SEEN
#define M9SEEN 1    /* nobody seals or cleans after a legacy holder was seen that the selector does not match; 0 only while its pod is there */
#endif
#ifndef M10
#define M10 1       /* candidates go only after the leader has unsealed; 0 any time */
#endif
#ifndef M10LEASE
#define M10LEASE 1  /* the phase goes back on the Lease first, then on the CM; 0 the CM first */
#endif
#ifndef M10TOUCH
#define M10TOUCH 1  /* who takes the Lease in phase dual beside a sealed CM writes the CM before it leads */
#endif
#ifndef M10DOWN
#define M10DOWN 1   /* phase legacy: whoever stays back takes the Lease to take a left shield down */
#endif
#ifndef M10NOTE
#define M10NOTE 1   /* lead only under a shield that carries the Lease's phase, as of its last change */
#endif
#ifndef M11
#define M11 2       /* pods of silent nodes count as gone: 1 once and for all; 2 until the node is heard again; 0 never */
#endif
#ifndef M11GAP
#define M11GAP 1    /* silence counts only while the candidate reads the API */
#endif
#ifndef M12
#define M12 1       /* mode lease keeps away from phase dual and from a legacy CM */
#endif
#ifndef M12SEAL
#define M12SEAL 1   /* ... and from an unsealed shield in phase sealed */
#endif

/* ---- the world: 0 is off ---- */
#ifndef NSLOT
#define NSLOT 3
#endif
#define LEG 1       /* legacy pod */
#define DUAL 2      /* candidate in mode auto or dual */
#define LONE 3      /* candidate in mode lease */
#ifndef K1
#define K1 LEG
#endif
#ifndef K2
#define K2 LEG
#endif
#ifndef K3
#define K3 DUAL
#endif
#ifndef K4
#define K4 0
#endif
#ifndef V
#define V 0         /* legacy: 0 original, 1 stale, 2 notready */
#endif
#ifndef GCV
#define GCV 0       /* collector deletes with: 0 UID and resourceVersion, 1 UID, 2 nothing */
#endif
#ifndef STS
#define STS 0       /* a new pod has its predecessor's name */
#endif
#ifndef E_CRASH
#define E_CRASH 1   /* processes crash; containers restart */
#endif
#ifndef E_TERM
#define E_TERM 1    /* pods are deleted gracefully; new ones follow: 1 any, 2 legacy ones */
#endif
#ifndef E_PART
#define E_PART 1    /* pods are cut off the API: 1 any, 2 candidates */
#endif
#ifndef E_NR
#define E_NR 0      /* nodes of legacy pods fall silent: 1 while cut off only, 2 at any time */
#endif
#ifndef E_POWER
#define E_POWER 0   /* nodes lose power, and may stay so: 1 those of legacy pods, 2 any */
#endif
#ifndef E_HELD
#define E_HELD 0    /* a candidate's pod never starts: no image, no room */
#endif
#ifndef E_FIN
#define E_FIN 0     /* legacy pods finish, for good */
#endif
#ifndef E_FAILED
#define E_FAILED 0  /* the pod collector writes Failed on a pod of a silent node */
#endif
#ifndef E_FORCE
#define E_FORCE 0   /* pod objects are deleted, processes go on: 1 of candidates, 2 of any; 3 of candidates, and the leader, if connected, acts before the collector */
#endif
#ifndef E_INPLACE
#define E_INPLACE 0 /* a pod's container may be of the other version when it restarts */
#endif
#ifndef E_STRAY
#define E_STRAY 0   /* a dead legacy program's delete lands late */
#endif
#ifndef E_CMDEL
#define E_CMDEL 0   /* a human deletes the CM: 1 at any time; 2 the Lease's holder, if connected, acts before a legacy program; 3 while the Lease is free */
#endif
#ifndef E_LEASEDEL
#define E_LEASEDEL 0 /* a human deletes the Lease */
#endif
#ifndef E_GAP
#define E_GAP 0     /* watches lose events */
#endif
#ifndef E_SEAL
#define E_SEAL 0    /* the phase is advanced to sealed: 1 by the leader, on the CM first; 2 by a human, on the Lease first, once the shield is armed */
#endif
#ifndef E_CLEAN
#define E_CLEAN 0   /* a human sets phase clean: no legacy pod is listed, and none starts any more; 1 after one was seen to lead, 2 at any time */
#endif
#ifndef E_MISS
#define E_MISS 0    /* the selector may match no legacy pod */
#endif
#ifndef E_ROLL
#define E_ROLL 0    /* the phase is rolled back from sealed */
#endif
#ifndef E_LEGACY
#define E_LEGACY 0  /* a human sets phase legacy, from any other, and dual again */
#endif
#ifndef E_LD
#define E_LD 0      /* new pods may be of the other version: 1 legacy <-> dual, 2 legacy -> dual, 3 dual -> legacy */
#endif
#ifndef E_DS
#define E_DS 0      /* dual <-> lease, to lease only once sealed */
#endif
#ifndef SEALED
#define SEALED 0    /* starts sealed */
#endif
#ifndef PHASE
#define PHASE 0     /* the Lease's phase at the start: 0 none, 1 dual */
#endif
#ifndef CALM
#define CALM 1      /* faults may end for good; then the model must not get stuck */
#endif
#ifndef CHECK
#define CHECK 1     /* 0 none, 1 no overlap with a candidate, 2 none that an up-to-date candidate goes on with */
#endif
#ifndef REACH
#define REACH 0     /* to see that the model gets there: 1 a candidate leads, 2 one in mode lease, 3 a legacy pod in slot 2; 4 one in mode lease leads under an unsealed shield; 5 a candidate leads, and the shield is gone for good */
#endif

/* where a process is */
#define START 0
#define RUN 1
#define L_WAIT 2
#define L_POD 3
#define L_DEL 4
#define L_LEADS 5
#define CRE 6
#define DEL 7
#define ARM 8
#define RET 9
#define ROLL 10
#define SEAL 11
#define SEND 12

/* what the CM is */
#define ABSENT 0
#define LEGACY 1
#define SHIELD 2

byte pc[NSLOT+1];
#if V>0
byte ro[NSLOT+1];        /* stale, notready: the owner's pod (a name) that it judges; 0 none */
#endif
#if M4MEM
byte mem[NSLOT+1], pend; /* legacy owners seen: by i, and as noted in the shield */
#endif
#if M11==2 && (E_NR || E_POWER)
byte judged[NSLOT+1];    /* what i, about to arm, counts as gone for its silence */
#define JUDGED(x) x
#define DOOMED(i) judged[i]
#else
#define JUDGED(x) skip;
#define DOOMED(i) 0
#endif
byte kl, kd, ks;         /* kinds of the slots */
byte podx, alive, term, part, nr, off, fin, failed, held;
byte prs, prst;          /* presence objects: of the slot's pod, of its predecessor */
byte own, ownst;         /* which of them own the shield */
byte lead, fcm, rdy;
#if E_LEGACY || E_SEAL==2
byte cur;                /* what i is about to write is of the newest change of phase */
bit late;                /* the CM's phase is of an earlier one */
#define CURRENT(x) x
#else
#define CURRENT(x) skip;
#define late 0
#endif
byte stl, knows;         /* must settle; this process has seen its presence among the owners */
byte evl, gap, same;     /* the Lease's holder: a legacy CM in its watch; events lost; the CM's UID is known */
byte said, blind;        /* containers last reported terminated; nodes that looked silent while cut off */
byte cx, co, lh, lp;     /* the CM and its owner's name; the Lease's holder and phase: 1 dual, 2 sealed, 3 legacy; 4 clean */
bit cg;                  /* the owner's UID is gone */
#if E_CLEAN
bit met, astray;         /* the Lease notes that a legacy pod held the lock; the selector matches none of them */
#define MET(x) x
#else
#define MET(x) skip;
#define astray 0
#endif
byte silent;             /* legacy pods that the armed shield counts as gone for their silence */
bit seal, arm, dropped, stray;
bit gst, gfr, gsame;     /* the collector is about to delete; same version; same UID */
bit calm;
byte j;

#define BIT(i) (1<<(i))
#define IN(m,i) (((m)>>(i))&1)
#define ADD(m,i) m = m | BIT(i)
#define CUT(m,i) m = m & (255-BIT(i))
#define UP(i) (IN(alive,i) && !IN(part,i))
#define HOLDS(i) (lh==i || !M3)

/* What counts as gone, though the pod object is there. */
#define FINISHED ((M4FIN==1 -> (fin & (255-(nr|off))) : (M4FIN==0 -> (fin|failed) : 0)))
#define SILENT(i) ((M11 -> ((nr|off) | (IN(blind,i) -> 255 : 0)) : 0))
#define PROVEN(i) (FINISHED | SILENT(i) | (M4TERM -> 0 : term) | said)
#define LISTED (podx & (255-ks) & (astray -> 255-kl : 255) & (M4SAME -> 255-kd : 255) & (255-(M4UID -> prs : prs|prst)))
#define NONELEFT(i) ((LISTED & (255-BIT(i)) & (255-PROVEN(i)))==0)
#define OWNERGONE(i) (cg || IN(PROVEN(i),co))
#if M4MEM
#define FORGOTTEN(i) ((mem[i] & (255-PROVEN(i)))==0)
#define LEARN(i) mem[i] = mem[i] | (pend & (255-BIT(i)))
#define UNNOTED(i) (mem[i] & (255-pend))
#else
#define FORGOTTEN(i) 1
#define LEARN(i) skip
#define UNNOTED(i) 0
#endif

#define MINE(i) (IN(prs,i) || (!M1UID && IN(prst,i)))
#define OWNIN(i) (IN(own,i) || (!M1UID && IN(ownst,i)))
#define SEALEDBY(i) (seal && (M9LATER || lp==2))
#if E_CLEAN
#define UNMATCHED (astray && (M9SEEN -> met : pend!=0))
#define CLEAN (lp==4)
#else
#define UNMATCHED 0
#define CLEAN 0
#endif
#define GOOD(i) (CLEAN || cx==SHIELD && (((arm || !M6ARMED) && (OWNIN(i) || !M6OWN)) || (SEALEDBY(i) && (lp==2 || !M10TOUCH))) && (!late || !M10NOTE))
#define BACK(m) ((m) & podx & (255-(nr|off)) & (255-FINISHED))
#define REFUSES (lp==3 || cx==LEGACY || (cx==SHIELD && !seal && (lp<2 || M12SEAL) && M9LATER))
#define WATCHES (M9WATCH || lp<2)

#define GCELIG ((cx==LEGACY && cg) || (cx==SHIELD && !(seal && M9BARE) && (own|ownst)==0))
#define MIXED ((lead & kl) && (lead & (kd|ks)))
#define KNOWING ((BACK(silent|DOOMED(lh)) -> 0 : 255) & lead & kd & fcm & (255-evl) & (255-gap) & podx)
#define STUCK (lead==0 && ((cx==SHIELD && alive) || (lp!=3 && !(alive & kl) && (alive & kd & podx))))

#if CHECK==1
#define CHECKED assert(!MIXED)
#else
#define CHECKED skip
#endif

inline setrdy(i) { if :: GOOD(i) && (lh==i || !M6FRESH) -> ADD(rdy,i) :: else -> CUT(rdy,i) fi;
	if :: lh==i && (OWNIN(i) || SEALEDBY(i) || !M8AGAIN) -> dropped=0 :: else fi;
	if :: M7==3 && GCV && !OWNIN(i) -> CUT(knows,i) :: else fi;
	if :: M7>=2 && GCV && !IN(knows,i) && OWNIN(i) -> ADD(stl,i); ADD(knows,i) :: else fi }
inline wrote(i) { CURRENT(if :: IN(cur,i) -> late=0; CUT(cur,i) :: else fi;) fcm = BIT(i); gfr=0; setrdy(i) }
inline unlease(i) {
	CUT(lead,i); CUT(evl,i); CUT(gap,i);
	if :: lh==i -> lh=0; dropped=0; if :: M6FRESH -> CUT(rdy,i) :: else fi :: else fi
}
inline delcm() {
	if
	:: cx -> cx=ABSENT; co=0; cg=0; seal=0; arm=0; silent=0; own=0; ownst=0; gsame=0; gfr=0; fcm=0; same=0; knows=(M7==3 -> 0 : knows); CURRENT(late=0;)
#if M4MEM
		pend=0;
#endif
	:: else
	fi
}
inline putup(i) {   /* what a shield written by i holds */
	cx=SHIELD; co=0; cg=0; own=(IN(prs,i) -> BIT(i) : 0); ownst=(!M1UID && IN(prst,i) -> BIT(i) : 0); seal=0;
	arm=(!M8BARE && IN(lead,i) -> 1 : 0);
#if M4MEM
	pend=mem[i];
#endif
	if :: IN(lead,i) -> JUDGED(silent=judged[i] & podx;) :: else -> skip fi;
	if :: M7 && GCV && !IN(lead,i) -> ADD(stl,i) :: else fi;
	same=(M8GAP==1 -> BIT(i) : 0); CURRENT(late=1;) wrote(i)
}
inline stops(i) {   /* the process is gone */
	unlease(i); pc[i]=START; JUDGED(judged[i]=0;) CUT(rdy,i); CUT(fcm,i); CUT(stl,i); CUT(knows,i); CUT(same,i);
#if V>0
	ro[i]=0;
#endif
#if M4MEM
	mem[i]=0;
#endif
}
inline dies(i) { CUT(alive,i); if :: E_STRAY && IN(kl,i) && pc[i]==L_DEL -> stray=1 :: else fi; if :: M4CONT -> skip :: else -> ADD(said,i) fi; stops(i) }
inline podgone(i) {
	CUT(podx,i); CUT(term,i); CUT(fin,i); CUT(failed,i); CUT(nr,i); CUT(off,i); CUT(held,i); CUT(said,i);
	if :: cx==LEGACY && co==i && !cg -> cg=1; co=(STS -> i : 0) :: else fi;
	CUT(silent,i);
	if :: IN(prs,i) -> CUT(prs,i); ADD(prst,i) :: else fi;
	if :: IN(own,i) -> CUT(own,i); ADD(ownst,i) :: else fi;
#if M11==2 && (E_NR || E_POWER)
	j=0; do :: j<NSLOT -> j++; CUT(judged[j],i) :: else -> break od; j=0;
#endif
#if V>0 && !STS
	j=0; do :: j<NSLOT -> j++; if :: ro[j]==i -> ro[j]=0 :: else fi :: else -> break od; j=0;
#endif
#if M4MEM
	CUT(pend,i);
	j=0; do :: j<NSLOT -> j++; CUT(mem[j],i) :: else -> break od; j=0
#endif
}

proctype Slot(byte i) {
	do
	/* ================= legacy ================= */
	:: d_step { IN(kl,i) && UP(i) && pc[i]==START ->
		if
		:: (cx==LEGACY && co==i) || (!M1NAME && cx==SHIELD && IN(own|ownst,i)) ->
			ADD(lead,i); pc[i]=L_LEADS; printf("STEP L%d starts: the CM's owner has its name: LEADS\n",i); CHECKED
		:: else -> pc[i]=L_WAIT; printf("STEP L%d starts, waits\n",i);
#if V==1
			if :: cx==LEGACY -> ro[i]=co; printf("STEP L%d remembers the owner pod %d\n",i,co) :: else fi
#endif
		fi }
	:: d_step { IN(kl,i) && UP(i) && pc[i]==L_WAIT && !cx && !(dropped && IN(kd & alive & (255-part),lh)) ->
		cx=LEGACY; cg=1-IN(podx,i); co=(cg && !STS -> 0 : i); fcm=0; gfr=0; evl = evl | (kd & BIT(lh) & (M8EVENTS==2 -> lead : 255));
		ADD(lead,i); pc[i]=L_LEADS;
#if V>0
		ro[i]=0;
#endif
		printf("STEP L%d creates the CM: LEADS\n",i); CHECKED }
#if V==1
	:: d_step { IN(kl,i) && UP(i) && pc[i]==L_WAIT && cx && ro[i] && IN(term,ro[i]) ->
		pc[i]=L_DEL; printf("STEP L%d finds its stale owner, pod %d, terminating\n",i,ro[i]) }
	:: d_step { IN(kl,i) && UP(i) && pc[i]==L_DEL ->
		pc[i]=L_WAIT; printf("STEP L%d deletes the CM by name (kind %d)\n",i,cx); delcm() }
#endif
#if V==2
	:: d_step { IN(kl,i) && UP(i) && pc[i]==L_WAIT && cx==LEGACY && co && IN(podx & (nr|off),co) ->
		ro[i]=co; pc[i]=L_POD; printf("STEP L%d finds the node of the owner, pod %d, not ready\n",i,co) }
	:: d_step { IN(kl,i) && UP(i) && pc[i]==L_POD ->
		if
		:: IN(podx,ro[i]) -> ADD(term,ro[i]); pc[i]=L_DEL; printf("STEP L%d deletes pod %d\n",i,ro[i])
		:: else -> dies(i); printf("STEP L%d: that pod is gone: exits\n",i)
		fi }
	:: d_step { IN(kl,i) && UP(i) && pc[i]==L_DEL ->
		ro[i]=0; pc[i]=L_WAIT; printf("STEP L%d deletes the CM by name (kind %d)\n",i,cx); delcm() }
#endif

	/* ================= candidate: presence and view ================= */
	:: d_step { IN(kd,i) && UP(i) && pc[i]==START && IN(podx,i) && (!IN(prst,i) || !M1UID) ->
		if :: !IN(prst,i) -> ADD(prs,i) :: else fi;
		pc[i]=RUN; printf("STEP D%d starts: has its presence\n",i) }
	:: d_step { IN(kd,i) && UP(i) && pc[i]==RUN && IN(podx,i) && !IN(prs|prst,i) ->
		ADD(prs,i); printf("STEP D%d makes its presence again\n",i) }
	:: d_step { IN(kd,i) && UP(i) && pc[i]==RUN && (!IN(fcm,i) || IN(evl,i) || (E_GAP && cx && !IN(same,i)) || ((E_LEGACY || E_SEAL==2) && lh==i && !IN(lead|rdy,i) && GOOD(i))) ->
		printf("STEP D%d reads the CM: kind %d owner %d gone %d armed %d sealed %d\n",i,cx,co,cg,arm,seal);
		if
		:: WATCHES && IN(lead,i) && ((cx==LEGACY && M8LOOK) || (IN(evl,i) && M8EVENTS) ||
			(IN(gap,i) && !IN(same,i) && ((cx && M8GAP==1) || M8GAP==2))) ->
			unlease(i); printf("STEP D%d ends its term\n",i)
		:: else
		fi;
		ADD(fcm,i); CUT(evl,i); CUT(gap,i); ADD(same,i); setrdy(i);
		if :: lh==i && cx==LEGACY -> MET(met=1;) :: else -> skip fi;
		if :: cx==SHIELD -> JUDGED(judged[i]=(lh==i -> silent : 0);) :: else -> skip fi;
#if M4MEM
		if :: cx==LEGACY && !cg && co!=i -> mem[i] = mem[i] | BIT(co) :: else fi;
		if :: cx==SHIELD -> LEARN(i) :: else fi
#endif
	}
	/* ================= candidate: the shield ================= */
	:: d_step { IN(kd,i) && UP(i) && pc[i]==RUN && IN(fcm,i) && !cx && !CLEAN &&
			((IN(lead,i) && M8AGAIN && WATCHES) || (HOLDS(i) && !IN(lead,i) && lp!=3 && (NONELEFT(i) || !M4LIST) && FORGOTTEN(i))) ->
		pc[i]=CRE; CUT(blind,i); CURRENT(ADD(cur,i);) printf("STEP D%d (leads %d) sends: create the shield\n",i,IN(lead,i)) }
	:: d_step { IN(kd,i) && UP(i) && pc[i]==CRE ->
		pc[i]=RUN;
		if :: !cx -> putup(i); printf("STEP D%d: the shield is up, unarmed\n",i) :: else -> printf("STEP D%d: exists already\n",i) fi }
	:: d_step { IN(kd,i) && UP(i) && pc[i]==RUN && IN(fcm,i) && cx==LEGACY && HOLDS(i) && lp!=3 && OWNERGONE(i) && (NONELEFT(i) || !M4LIST) && FORGOTTEN(i) ->
		pc[i]=DEL; CUT(blind,i); CURRENT(ADD(cur,i);) printf("STEP D%d: the owner is gone, none left; takes the legacy CM over\n",i) }
	:: d_step { IN(kd,i) && UP(i) && pc[i]==DEL ->
		if
		:: IN(fcm,i) && M4NEW -> delcm(); ADD(fcm,i); CUT(rdy,i); pc[i]=CRE; printf("STEP D%d deletes the legacy CM (UID, version)\n",i)
		:: IN(fcm,i) && !M4NEW -> putup(i); pc[i]=RUN; printf("STEP D%d updates the legacy CM to an unarmed shield\n",i)
		:: else -> pc[i]=RUN; printf("STEP D%d: conflict\n",i)
		fi }
	:: d_step { IN(kd,i) && UP(i) && pc[i]==RUN && IN(fcm,i) && cx==SHIELD && !SEALEDBY(i) && (lp!=3 || IN(lead,i)) && MINE(i) && ((!OWNIN(i) && M2) || UNNOTED(i)) ->
		if
		:: !OWNIN(i) && M2 -> own = own | (prs & BIT(i)); ownst = ownst | (prst & BIT(i)); seal=0;
			if :: M2==2 -> own = own | prs; printf("STEP D%d puts in all the others\n",i) :: true -> skip fi;
			if :: M7 && GCV && !IN(lead,i) -> ADD(stl,i) :: else fi
		:: else
		fi;
#if M4MEM
		pend = pend | mem[i];
#endif
		wrote(i); printf("STEP D%d puts itself among the shield's owners\n",i) }
	:: d_step { IN(kd,i) && UP(i) && pc[i]==RUN && HOLDS(i) && IN(fcm,i) && cx==SHIELD && !arm && !SEALEDBY(i) && (lp!=3 || IN(lead,i)) && OWNIN(i) &&
			((NONELEFT(i) && FORGOTTEN(i)) || !M5LIST || (M5DOWN && !IN(lead,i))) ->
		if
		:: (NONELEFT(i) && FORGOTTEN(i)) || !M5LIST -> pc[i]=ARM; CURRENT(ADD(cur,i);) JUDGED(judged[i]=LISTED & SILENT(i) & (255-BIT(i));) printf("STEP D%d lists: no legacy pod left; sends: arm\n",i)
		:: else -> pc[i]=RET; printf("STEP D%d lists: a legacy pod is left; sends: take down\n",i)
		fi;
		CUT(blind,i) }
	:: d_step { IN(kd,i) && UP(i) && pc[i]==ARM ->
		pc[i]=RUN;
		if
		:: (IN(fcm,i) || !M5CAS) && cx==SHIELD -> arm=1; JUDGED(silent=judged[i];) wrote(i); printf("STEP D%d: the shield is ARMED\n",i)
		:: else -> printf("STEP D%d: conflict\n",i)
		fi }
	:: d_step { IN(kd,i) && UP(i) && pc[i]==RUN && lh==i &&
			((IN(lead,i) && BACK(silent|DOOMED(i))) || (IN(fcm,i) && cx==SHIELD && BACK(silent))) ->
		printf("STEP D%d hears again of a node that it took for dead\n",i);
		if :: IN(lead,i) -> unlease(i); printf("STEP D%d ends its term\n",i) :: else -> pc[i]=RET fi }
	:: d_step { IN(kd,i) && UP(i) && pc[i]==RET ->
		pc[i]=RUN;
		if
		:: IN(fcm,i) && cx==SHIELD -> delcm(); ADD(fcm,i); ADD(same,i); CUT(rdy,i); printf("STEP D%d takes the shield down\n",i)
		:: else -> printf("STEP D%d: conflict\n",i)
		fi }
#if E_LEGACY || E_SEAL==2
	:: d_step { IN(kd,i) && IN(alive,i) && pc[i]==RUN && lh==i && IN(lead,i) && lp==3 -> CUT(lead,i); CUT(rdy,i); CUT(fcm,i); printf("STEP D%d stops its work\n",i) }
	:: d_step { IN(kd,i) && UP(i) && pc[i]==RUN && lh==i && !IN(lead,i) && lp==3 && IN(fcm,i) && cx==SHIELD ->
		pc[i]=RET; printf("STEP D%d sends: take down\n",i) }
	:: d_step { IN(kd,i) && UP(i) && pc[i]==RUN && lh==i && !IN(lead,i) && lp==3 && IN(fcm,i) && cx!=SHIELD ->
		unlease(i); printf("STEP D%d has given the legacy lock back, and gives the Lease up\n",i) }
	:: d_step { IN(kd,i) && UP(i) && pc[i]==RUN && lh==i && !IN(lead,i) && lp!=3 && IN(fcm,i) && cx==SHIELD && late && M10NOTE && (OWNIN(i) || SEALEDBY(i)) ->
		if :: seal && lp==1 -> seal=0; own=(prs & BIT(i)) :: else fi;
		ADD(cur,i); wrote(i); printf("STEP D%d notes the phase on the shield\n",i) }
#endif
	/* the collector's delete that was under way is over by now; read again */
	:: d_step { IN(kd,i) && UP(i) && pc[i]==RUN && IN(stl,i) && !gst ->
		CUT(stl,i); CUT(fcm,i); CUT(rdy,i); printf("STEP D%d has settled\n",i) }

	/* ================= candidate: phases ================= */
#if E_SEAL || SEALED
	:: d_step { IN(kd,i) && UP(i) && pc[i]==RUN && lh==i && IN(fcm,i) && cx==SHIELD && !seal && ((IN(lead,i) && arm && !silent) || !M9ARMED) &&
			((E_SEAL==1 && !calm) || lp==2) ->
		pc[i]=SEND; CURRENT(ADD(cur,i);) printf("STEP D%d sends: seal\n",i) }
	:: d_step { IN(kd,i) && UP(i) && pc[i]==SEND ->
		pc[i]=RUN;
		if
		:: IN(fcm,i) -> seal=1; if :: M9BARE -> own=0; ownst=0 :: else fi; wrote(i); printf("STEP D%d: the CM is SEALED\n",i)
		:: else -> printf("STEP D%d: conflict\n",i)
		fi }
	:: d_step { IN(kd,i) && UP(i) && pc[i]==RUN && lh==i && IN(fcm,i) && cx==SHIELD && seal && lp<2 && !late && M9LATER ->
		if :: M10TOUCH && !IN(lead,i) -> wrote(i); printf("STEP D%d writes the sealed CM\n",i) :: else fi; pc[i]=SEAL }
	:: d_step { IN(kd,i) && UP(i) && pc[i]==SEAL ->
		pc[i]=RUN; if :: lh==i && lp!=3 -> lp=2; CURRENT(cur=0;) setrdy(i); printf("STEP D%d notes phase sealed on the Lease\n",i) :: else fi }
#endif
#if E_CLEAN
	:: d_step { IN(kd,i) && UP(i) && pc[i]==RUN && lh==i && CLEAN && IN(fcm,i) && cx==SHIELD -> pc[i]=RET; printf("STEP D%d sends: take down, for good\n",i) }
#endif
#if E_ROLL
	:: d_step { !calm && IN(kd,i) && UP(i) && pc[i]==RUN && IN(lead,i) && IN(fcm,i) && cx==SHIELD && seal && lp==2 ->
		if
		:: M10LEASE -> lp=1; CURRENT(cur=BIT(i); late=1;) pc[i]=ROLL; printf("STEP D%d rolls back: phase dual on the Lease\n",i)
		:: else -> seal=0; own=(prs & BIT(i)); wrote(i); pc[i]=ROLL; printf("STEP D%d rolls back: the shield has owners again\n",i)
		fi }
	:: d_step { IN(kd,i) && UP(i) && pc[i]==ROLL ->
		pc[i]=RUN;
		if
		:: M10LEASE && IN(fcm,i) && cx==SHIELD && seal -> seal=0; own=(prs & BIT(i)); wrote(i); printf("STEP D%d: the shield has owners again\n",i)
		:: !M10LEASE && lh==i -> lp=1; CURRENT(cur=0;) printf("STEP D%d: phase dual on the Lease\n",i)
		:: else
		fi }
#endif

	/* ================= candidate: the Lease ================= */
	:: d_step { IN(kd,i) && UP(i) && pc[i]==RUN && lh==0 && (IN(podx,i) || !M8POD) && (lp!=3 || (M10DOWN && cx==SHIELD)) ->
		lh=i; if :: lp==0 -> lp=1 :: else fi; if :: M6FRESH -> CUT(fcm,i); CUT(rdy,i) :: else fi; printf("STEP D%d takes the Lease\n",i) }
	:: d_step { IN(kd,i) && IN(alive,i) && pc[i]==RUN && lh==i && IN(rdy,i) && !IN(stl,i) && !IN(lead,i) && lp!=3 ->
		ADD(lead,i); printf("STEP D%d has Lease and shield: LEADS\n",i); CHECKED }
	:: d_step { IN(kd,i) && UP(i) && M8POD && lh==i && !IN(podx,i) -> unlease(i); printf("STEP D%d finds its pod gone: stops\n",i) }
#if E_LEASEDEL
	:: d_step { IN(kd,i) && UP(i) && lh==i && lp==0 -> lp=1; printf("STEP D%d recreates the Lease\n",i) }
#endif
	:: d_step { IN(ks,i) && UP(i) && pc[i]==START && !(M12 && (lp==1 || REFUSES)) ->
		pc[i]=RUN; printf("STEP S%d reads the CM: kind %d sealed %d; will campaign\n",i,cx,seal) }
	:: d_step { IN(ks,i) && UP(i) && pc[i]==RUN && lh==0 ->
		if
		:: M12 && (lp==1 || lp==3) -> pc[i]=START
		:: else -> lh=i; ADD(lead,i); printf("STEP S%d takes the Lease: LEADS\n",i); CHECKED
		fi }
	:: d_step { !IN(kl,i) && lh==i && (!calm || IN(part,i)) -> unlease(i); printf("STEP %d gives the Lease up, or is over its deadline\n",i) }

	/* ================= what happens to the pod ================= */
#if E_CRASH
	:: d_step { !calm && IN(alive,i) -> dies(i); printf("STEP process %d crashes\n",i) }
#endif
	:: d_step { !IN(alive,i) && IN(podx,i) && !IN(term|fin|failed|off|held,i) -> ADD(alive,i); printf("STEP container %d restarts\n",i) }
#if E_INPLACE
	:: d_step { !calm && !IN(alive,i) && IN(podx,i) && !IN(term|fin|failed|off,i) && !IN(ks,i) ->
		if :: IN(kl,i) -> CUT(kl,i); ADD(kd,i) :: else -> CUT(kd,i); ADD(kl,i) fi;
		ADD(alive,i); printf("STEP container %d restarts, candidate now %d\n",i,IN(kd,i)) }
#endif
#if E_TERM
	:: d_step { !calm && IN(podx,i) && !IN(term,i) && (E_TERM==1 || IN(kl,i)) -> ADD(term,i); printf("STEP pod %d gets a deletionTimestamp\n",i) }
	:: d_step { !IN(alive,i) && !IN(podx,i) && (STS || !IN(prst,i)) && !(CLEAN && IN(kl,i)) ->
		ADD(podx,i); ADD(alive,i); CUT(part,i); printf("STEP new pod %d\n",i) }
#endif
#if E_LD
	:: d_step { !calm && !IN(alive,i) && !IN(podx,i) && (STS || !IN(prst,i)) && !IN(ks,i) &&
			((IN(kl,i) && E_LD<3) || (IN(kd,i) && E_LD!=2 && ((lp!=2 && !seal) || !M10))) ->
		if :: IN(kl,i) -> CUT(kl,i); ADD(kd,i) :: else -> CUT(kd,i); ADD(kl,i) fi;
		ADD(podx,i); ADD(alive,i); CUT(part,i); printf("STEP new pod %d, candidate now %d\n",i,IN(kd,i)) }
#endif
#if E_DS
	:: d_step { !calm && !IN(alive,i) && !IN(podx,i) && (STS || !IN(prst,i)) && !IN(kl,i) && (IN(ks,i) || lp==2) ->
		if :: IN(ks,i) -> CUT(ks,i); ADD(kd,i) :: else -> CUT(kd,i); ADD(ks,i) fi;
		ADD(podx,i); ADD(alive,i); CUT(part,i); printf("STEP new pod %d, mode lease now %d\n",i,IN(ks,i)) }
#endif
	:: d_step { IN(said & alive & (255-nr),i) -> CUT(said,i); printf("STEP the kubelet reports container %d running\n",i) }
	:: d_step { IN(alive,i) && IN(term,i) && !IN(nr & part,i) -> dies(i); printf("STEP process %d is stopped\n",i) }
	:: d_step { !IN(alive,i) && IN(podx,i) && IN(term,i) && !IN(nr|off,i) -> podgone(i); printf("STEP pod %d is gone\n",i) }
#if E_PART
	:: d_step { !calm && IN(alive & podx,i) && !IN(part,i) && (E_PART==1 || !IN(kl,i)) ->
		ADD(part,i); if :: E_NR && IN(kl,i) -> ADD(nr,i) :: else fi; if :: !M11GAP && IN(kd,i) -> ADD(blind,i) :: else fi;
		printf("STEP pod %d is cut off\n",i) }
	:: d_step { IN(part,i) -> CUT(part,i); CUT(nr,i); printf("STEP pod %d is connected again\n",i) }
#endif
#if E_NR==2
	:: d_step { !calm && IN(podx & kl,i) && !IN(nr,i) -> ADD(nr,i); printf("STEP the node of %d falls silent\n",i) }
	:: d_step { IN(nr,i) && !IN(part,i) -> CUT(nr,i); printf("STEP the node of %d is heard again\n",i) }
#endif
#if E_POWER
	:: d_step { !calm && IN(podx,i) && (E_POWER==2 || IN(kl,i)) && !IN(off,i) -> dies(i); ADD(off,i); printf("STEP the node of %d loses power\n",i) }
	:: d_step { !calm && IN(off,i) -> CUT(off,i); printf("STEP the node of %d is back\n",i) }
#endif
#if E_HELD
	:: d_step { !calm && IN(podx & kd,i) && pc[i]==START && !IN(prs|held,i) -> dies(i); ADD(held,i); printf("STEP pod %d never starts\n",i) }
#endif
#if E_FIN
	:: d_step { !calm && IN(podx & kl,i) && !IN(fin|off,i) -> dies(i); ADD(fin,i); printf("STEP pod %d finishes\n",i) }
#endif
#if E_FAILED
	:: d_step { !calm && IN(podx & kl,i) && IN(nr|off,i) && !IN(failed,i) -> ADD(failed,i); printf("STEP pod %d is marked Failed\n",i) }
	:: d_step { IN(failed,i) && !IN(nr|off,i) -> dies(i); CUT(failed,i); ADD(fin,i); printf("STEP the kubelet stops pod %d\n",i) }
#endif
#if E_FORCE
	:: d_step { !calm && IN(alive & podx,i) && (E_FORCE==2 || IN(kd,i)) -> podgone(i); printf("STEP pod %d is force-deleted, its process goes on\n",i) }
	:: d_step { IN(alive,i) && !IN(podx,i) -> dies(i); printf("STEP process %d, without a pod, ends\n",i) }
#endif
	od
}

proctype World() {
	do
	:: d_step { !gst && GCELIG -> gst=1; gfr=1; gsame=1; printf("STEP GC: the CM (kind %d) has no owner left\n",cx) }
	:: d_step { gst ->
		if
		:: cx && (GCV==2 || (GCV==1 && gsame) || gfr) -> printf("STEP GC deletes the CM (kind %d)\n",cx); delcm()
		:: else -> printf("STEP GC: conflict\n")
		fi;
		gst=0; gfr=0; gsame=0 }
	:: d_step { M1OWN && prst && !(E_FORCE==3 && M8POD && IN(prst & alive & (255-part),lh)) ->
		printf("STEP GC deletes presences %d\n",prst); prst=0; ownst=0 }
#if REACH==1
	:: d_step { lead & kd -> assert(0) }
#elif REACH==2
	:: d_step { lead & ks -> assert(0) }
#elif REACH==3
	:: d_step { lead & kl & 4 -> assert(0) }
#elif REACH==4
	:: d_step { cx==SHIELD && !seal && (lead & ks) -> assert(0) }
#elif REACH==5
	:: d_step { CLEAN && !cx && (lead & kd) -> assert(0) }
#endif
#if E_STRAY
	:: d_step { stray -> stray=0; printf("STEP a dead legacy program's delete lands (kind %d)\n",cx); delcm() }
#endif
#if E_CMDEL
	:: d_step { !calm && cx && (E_CMDEL<3 || !lh) -> delcm(); dropped=(E_CMDEL==2 && lh); printf("STEP a human deletes the CM\n") }
#endif
#if E_LEASEDEL
	:: d_step { !calm && lp -> lp=0; printf("STEP a human deletes the Lease\n") }
#endif
#if E_LEGACY
	:: d_step { !calm && lp && lp<3 -> lp=3; cur=0; late=(cx==SHIELD); printf("STEP a human sets phase legacy\n") }
	:: d_step { !calm && lp==3 -> lp=1; cur=0; late=(cx==SHIELD); printf("STEP a human sets phase dual\n") }
#endif
#if E_SEAL==2
	:: d_step { !calm && lp==1 && cx==SHIELD && arm && !UNMATCHED -> lp=2; cur=0; late=1; printf("STEP a human sets phase sealed\n") }
#endif
#if E_CLEAN
	:: d_step { !calm && lp==2 && cx==SHIELD && seal && !(LISTED & kl) && (met || E_CLEAN==2) && !UNMATCHED -> lp=4; printf("STEP a human sets phase clean\n") }
#endif
#if E_GAP
	:: d_step { !calm && (kd & BIT(lh)) -> gap=(kd & BIT(lh)); evl=0; fcm = fcm & (255-gap); printf("STEP the leader's watch has a gap\n") }
#endif
#if CHECK==2
	:: d_step { KNOWING && (lead & kl & (M11 -> 255-nr : 255)) -> printf("STEP a candidate that knows all there is to know leads beside a legacy program\n"); assert(!MIXED) }
#endif
#if CALM
	:: d_step { !calm -> calm=1; printf("STEP no more faults\n") }
	:: calm && timeout -> assert(!STUCK); break
#endif
	od
}

init {
	atomic {
		kl = (K1==LEG -> 2 : 0) | (K2==LEG -> 4 : 0) | (K3==LEG -> 8 : 0) | (K4==LEG -> 16 : 0);
		kd = (K1==DUAL -> 2 : 0) | (K2==DUAL -> 4 : 0) | (K3==DUAL -> 8 : 0) | (K4==DUAL -> 16 : 0);
		ks = (K1==LONE -> 2 : 0) | (K2==LONE -> 4 : 0) | (K3==LONE -> 8 : 0) | (K4==LONE -> 16 : 0);
		podx = kl|kd|ks; alive = podx; lp=PHASE;
#if E_MISS
		if :: astray=1 :: astray=0 fi;
#endif
		if :: SEALED -> cx=SHIELD; seal=1; arm=1; lp=2 :: else fi;
		j=0; do :: j<NSLOT -> j++; run Slot(j) :: else -> break od; j=0;
		run World()
	}
}

#ifdef LIVE
/* Faults over, every path leads to a leader again and again, or to rest with one. */
ltl live { []<> (!calm || !STUCK) }
#endif
