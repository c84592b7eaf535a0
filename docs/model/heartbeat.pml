/* Copyright The zonelect Authors.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Liveness epochs as a Spin model: two processes, each of which may hold and
 * follow, two locks that name the epoch of their holder, and the two liveness
 * Leases that a heartbeat renews. README.md says what is assumed;
 * test/suites/model holds the cases and runs them.
 *
 * Processes are 0 and 1, so the other one is 1-i. Locks are 0 and 1. Bit X(i,k)
 * of a mask is about process i and lock k; bit i of a mask is about process i.
 * There are no resourceVersions: a bit says whether what a process knows is
 * still the newest version, and every write of others clears it.
 *
 * Time comes in ticks, one clock for all. Trust ends at the tick after D whole
 * ones, a wait is over after T. Between two ticks anything may happen, in any
 * order. As both bounds are closed, whole ticks stand for all real times.
 */

/* ---- the rules: 1 is as written, 0 is left out ---- */
#ifndef L1VIEW
#define L1VIEW 1    /* a heartbeat counts for a lock that the view shows unchanged */
#endif
#ifndef L1REACH
#define L1REACH 1   /* that view has reached the heartbeat */
#endif
#ifndef L1EPOCH
#define L1EPOCH 1   /* and the lock names the epoch of the heartbeat */
#endif
#ifndef L1SENT
#define L1SENT 1    /* trust counts from the sending (S1) */
#endif
#ifndef L2WITHDRAW
#define L2WITHDRAW 1 /* an epoch is withdrawn before its locks are taken */
#endif
#ifndef L2WAIT
#define L2WAIT 1    /* a follower waits before it takes a lock */
#endif
#ifndef L2EARLY
#define L2EARLY 1   /* and before it withdraws the epoch */
#endif
#ifndef L2CAS
#define L2CAS 1     /* withdrawn at the version that it waited on */
#endif
#ifndef L3
#define L3 1        /* a withdrawal notes the epoch and its last heartbeat.
                       0: an emptied Lease is all there is, and L4 holds for it.
                       2: an emptied Lease is all there is, and passes for a withdrawal */
#endif
#ifndef L4
#define L4 1        /* deleted, emptied, replaced without a note: wait a lease from that sight */
#endif
#ifndef L4UID
#define L4UID 1     /* a Lease of another UID is another Lease */
#endif
#ifndef L4NOTE
#define L4NOTE 1    /* and then withdraw the epoch there too, if the Lease is there.
                       0: take the lock without. 2: create the Lease if it is not there */
#endif
#ifndef L5
#define L5 1        /* the end of an epoch ends its terms. 0: they go on in the next epoch.
                       2: they run out. 3: a foreign write that leaves the epoch as it was ends it too */
#endif
#ifndef L5NEW
#define L5NEW 1     /* the next epoch is a new one. 0: a process writes its old one back */
#endif
#ifndef L6
#define L6 1        /* a process detaches a lock that names its epoch and has no term */
#endif
#ifndef L7
#define L7 1        /* a lock's own write is waited for too, though the epoch is withdrawn */
#endif

#ifndef L8TERM
#define L8TERM 1    /* a lock is released by a note only once its term is over */
#endif
#ifndef L8VERSION
#define L8VERSION 1 /* the note names the version of the lock: any write of it makes the note void */
#endif
#ifndef L8EPOCH
#define L8EPOCH 1   /* and the epoch */
#endif

/* ---- the world ---- */
#ifndef D
#define D 1         /* ticks of trust */
#endif
#ifndef T
#define T 2         /* ticks that a follower waits */
#endif
#ifndef NL
#define NL 2        /* locks */
#endif
#ifndef HOLDS
#define HOLDS 3     /* mask of processes that campaign */
#endif
#ifndef OWNER
#define OWNER 0     /* who holds lock 1 at first; lock 0 is held by process 0 */
#endif
#ifndef NE
#define NE 3        /* names of epochs; one that nothing refers to is used again */
#endif
#ifndef E_HAND
#define E_HAND 0    /* Leases that a human deletes or empties */
#endif
#ifndef E_HB
#define E_HB 1      /* hands reach liveness Leases */
#endif
#ifndef E_LOCK
#define E_LOCK 1    /* hands reach locks */
#endif
#ifndef E_BACK
#define E_BACK 0    /* a human may put back what hands took: 1 liveness Leases,
                       2 also locks as they once were */
#endif
#ifndef E_LOST
#define E_LOST 1    /* requests and answers get lost */
#endif
#ifndef SLOWTAKE
#define SLOWTAKE 3  /* mask of processes whose acquisitions may take any time */
#endif
#ifndef SLOWBEAT
#define SLOWBEAT 3  /* the same for heartbeats */
#endif
#ifndef BEATS
#define BEATS 3     /* mask of processes that send heartbeats */
#endif
#ifndef BEGINS
#define BEGINS 3    /* mask of processes that begin another epoch after one is over */
#endif
#ifndef E_LATE
#define E_LATE 0    /* a lock is detached by a request from before its term began */
#endif
#ifndef E_RELEASE
#define E_RELEASE 1 /* terms end by a release */
#endif
#ifndef E_NOTE
#define E_NOTE 0    /* mask of processes that release locks by notes on their liveness Leases */
#endif
#ifndef E_GIVEUP
#define E_GIVEUP 0  /* mask of processes whose electors hang or go, while the process goes on */
#endif
#ifndef E_CRASH
#define E_CRASH 0   /* process 0 may crash for ever */
#endif
#ifndef CALM
#define CALM 0      /* faults end, and then all must come to rest with leaders */
#endif
#ifndef REACH
#define REACH 0     /* a state to be reached, to show that the model gets there */
#endif

/* locks: whose they are */
#define FREE 0
#define GONE 3      /* deleted, or emptied by somebody who did not hold it */
/* liveness Leases */
#define LIVE 1
#define EMPTY 2
#define AWAY 3      /* deleted */
#define WITHDRAWN 4
/* requests */
#define NONE 0
#define SENT 1
#define LANDED 2
#define ANSWERED 3  /* a heartbeat whose version the view has not reached */

#define NOT (D+1)   /* not trusted */
#define MAXAGE (T>NOT -> T : NOT)

#define X(i,k) ((i)*2+(k))
#define IN(s,x) ((s) & (1<<(x)))
#define ADD(s,x) s = s | (1<<(x))
#define CUT(s,x) s = s & (255-(1<<(x)))

byte h[2], e[2];            /* locks: holder (process+1), and the epoch named; 0 is none */
byte st[2], c[2], note[2];  /* liveness Leases: state, epoch, epoch noted as withdrawn */
byte alien;                 /* it has another UID than the epoch began with */
byte own;                   /* (i,k): the lock is as i wrote it last */

byte ce[2];                 /* the epoch in which a process knows itself to be */
byte hs[2], ha[2];          /* its heartbeat, and the age of that */
byte tk[2], tkk[2], tke[2], tka[2]; /* its acquisition: lock, epoch named, age */
byte tf;                    /* the lock is as it was when i decided to acquire it */
byte tc;                    /* the acquisition of i is a creation */
byte te[4], tra[4];         /* terms: epoch, and the age of what trust counts from */
byte ag[4];                 /* how long (i,k) has been waited for */
byte lcur;                  /* i's view of lock k is current */
byte pend;                  /* something happened since that restarts the wait */
byte dead;                  /* i knows that the epoch of lock k is over */
byte vo;                    /* i's view shows lock k as i wrote it */
byte kf;                    /* i knows the version of its own liveness Lease */
byte vr;                    /* i's view has reached its own heartbeat */
byte fw;                    /* (L5=3) that version was followed by another's write */
byte nw[2], nwe[2];         /* the note of i that is on its way: lock+1, and its epoch */
byte nf;                    /* the lock is as it was when i sent that */
byte nt;                    /* the note on the Lease of (i,k) says that lock k, as it is, is released */
byte ne[4];                 /* the epoch of that note */
byte ns;                    /* (i,k): i has seen that note of the other on lock k */
byte gave;                  /* (i,k) campaigns no more */
byte off;                   /* crashed */
byte hands, taken;          /* hands left; liveness Leases that they took */
byte lost;                  /* the liveness Lease that lock k names was deleted */
byte tu;                    /* and that which the acquisition of i names */
bit calm;
bit two, idle;              /* what must not be: two trust a lock, or nobody ever takes it */

byte j, k, q, x, was[2], cut; /* of one step; 0 between steps */

#define ISLIVE(p,E) (st[p]==LIVE && c[p]==(E) && !IN(alien,p) && note[p]!=(E))
#define CLASS(p,E) (ISLIVE(p,E) -> 1 : (note[p]==(E) -> 2 : 3))
/* nothing can bring the epoch of lock k back, as far as process p's Lease tells */
#define OVER(p,k) (note[p]==e[k] || ((!L4NOTE || L3!=1) && !ISLIVE(p,e[k])) || (L4NOTE==1 && (L4UID -> IN(lost,k) : st[p]==AWAY)))
#define UP(i) (!IN(off,i))
#define HEALTHY(i) (UP(i) && ce[i] && ISLIVE(i,ce[i]))
#define TERM(i,k) (te[X(i,k)] && tra[X(i,k)]<=D)

inline check(K) {
	if :: TERM(0,K) && TERM(1,K) -> two=1; printf("STEP two processes trust lock %d\n",K); assert(!two) :: else fi
}
inline endterm(Z) { te[Z]=0; tra[Z]=NOT }
/* lock K has another version, of which only process W knows (2: nobody) */
inline changed(K,W) {
	CUT(own,X(0,K)); CUT(own,X(1,K)); CUT(lost,K);
#if E_NOTE
	if :: L8VERSION -> CUT(nt,X(0,K)); CUT(nt,X(1,K)); ne[X(0,K)]=0; ne[X(1,K)]=0;
		if :: nw[0]==K+1 -> CUT(nf,0) :: else fi; if :: nw[1]==K+1 -> CUT(nf,1) :: else fi
	:: else fi;
	CUT(ns,X(0,K)); CUT(ns,X(1,K));
#endif
	q=0;
	do
	:: q<2 ->
		x=X(q,K); ag[x]=0; CUT(dead,x); CUT(pend,x);
		if :: q==W -> ADD(lcur,x) :: else -> CUT(lcur,x) fi;
		if
		:: tk[q]==SENT && tkk[q]==K && IN(tc,q) -> CUT(tf,q)
		:: tk[q]==SENT && tkk[q]==K && !IN(tc,q) -> droptake(q)
		:: else
		fi;
		q++
	:: else -> break
	od;
	q=0; x=0
}
inline droptake(I) { tk[I]=NONE; tkk[I]=0; tke[I]=0; tka[I]=0; CUT(tf,I); CUT(tc,I); CUT(tu,I) }
inline drophb(I) { hs[I]=NONE; ha[I]=0; CUT(vr,I); if :: L1REACH -> CUT(vo,X(I,0)); CUT(vo,X(I,1)) :: else fi }
/* around each write of liveness Lease P: a lock whose epoch was or becomes something
 * else is waited for again, unless the note says that it is only withdrawn */
inline before(P) {
	k=0; do :: k<NL -> was[k]=(h[k]==P+1 && e[k] -> CLASS(P,e[k]) : 0); k++ :: else -> break od; k=0
}
inline after(P) {
	k=0;
	do
	:: k<NL ->
		if
		:: was[k] && was[k]!=CLASS(P,e[k]) && CLASS(P,e[k])!=2 && IN(lcur,X(1-P,k)) ->
			if
			:: CLASS(P,e[k])==3 && (!L4 || (L3==2 && st[P]==EMPTY)) -> CUT(pend,X(1-P,k))
			:: else -> ADD(pend,X(1-P,k))
			fi
		:: else
		fi;
		was[k]=0; k++
	:: else -> break
	od;
	k=0
}
/* a write of another on the liveness Lease: what is on its way there will fail */
inline foreign(P) { if :: L5==3 && IN(kf,P) -> ADD(fw,P) :: else fi; CUT(kf,P); if :: hs[P]==SENT -> drophb(P) :: else fi }

/* L1: the heartbeat counts */
inline confirm(I) {
	k=0;
	do
	:: k<NL ->
		x=X(I,k);
		if
		:: te[x] && (te[x]==ce[I] || !L1EPOCH) && (IN(vo,x) || !L1VIEW) && (ha[I]<tra[x] || !L1SENT) ->
			tra[x]=(L1SENT -> ha[I] : 0); printf("STEP %d trusts lock %d by it\n",I,k); check(k)
		:: else
		fi;
		k++
	:: else -> break
	od;
	k=0; x=0; drophb(I)
}

/* the other's note releases lock k */
#define NOTED(i,k) (E_NOTE && h[k]==2-i && e[k] && IN(nt,X(1-i,k)) && (ne[X(1-i,k)]==e[k] || !L8EPOCH))

/* the watch, or a list: i sees everything as it is now, whatever it missed */
inline look(I) {
	printf("STEP %d sees: locks %d/%d %d/%d, own Lease %d, the other's %d\n",I,h[0],e[0],h[1],e[1],st[I],st[1-I]);
	k=0;
	do
	:: k<NL ->
		x=X(I,k);
		if :: !IN(lcur,x) || IN(pend,x) -> ag[x]=0 :: else fi;
		ADD(lcur,x); CUT(pend,x);
		if :: h[k]==2-I && e[k] && OVER(1-I,k) -> ADD(dead,x) :: else -> CUT(dead,x) fi;
		if :: IN(own,x) && (hs[I]>SENT || !L1REACH) -> ADD(vo,x) :: else -> CUT(vo,x) fi;
#if E_NOTE
		if :: NOTED(I,k) -> ADD(ns,x) :: else -> CUT(ns,x) fi;
#endif
		k++
	:: else -> break
	od;
	k=0; x=0;
	ADD(kf,I); if :: hs[I]>SENT -> ADD(vr,I) :: else fi;
	if
	:: ce[I] && (!ISLIVE(I,ce[I]) || IN(fw,I)) ->
		printf("STEP %d: its epoch is over\n",I);
		drophb(I); ce[I]=0;
		if :: L5==1 || L5==3 -> endterm(X(I,0)); endterm(X(I,1)) :: else fi
	:: else
	fi;
	CUT(fw,I);
	if :: hs[I]==ANSWERED -> confirm(I) :: else fi
}

/* there is something that i has not seen */
#define NEW(i,k) (!IN(lcur,X(i,k)) || IN(pend,X(i,k)) || (h[k]==2-i && e[k] && !IN(dead,X(i,k)) == !(!OVER(1-i,k))) || \
	(hs[i]>SENT && IN(vr,i) && !IN(vo,X(i,k)) == !(!IN(own,X(i,k)))) || \
	(NOTED(i,k) && !IN(ns,X(i,k))) || (IN(ns,X(i,k)) && !NOTED(i,k)))
#define NEWS(i) (NEW(i,0) || (NL>1 && NEW(i,1)) || !IN(kf,i) || (hs[i]>SENT && !IN(vr,i)))

/* an epoch that nothing refers to any more */
#define USED(p,E) ((h[0]==p+1 && e[0]==E) || (h[1]==p+1 && e[1]==E) || (tk[p] && tke[p]==E) || \
	te[X(p,0)]==E || te[X(p,1)]==E || c[p]==E || nwe[p]==E || ne[X(p,0)]==E || ne[X(p,1)]==E)

inline begin(I) {
	before(I);
	j=1; do :: j<=NE && USED(I,j) -> j++ :: else -> break od;
	if :: !L5NEW && c[I] && st[I]==EMPTY && note[I]!=c[I] -> j=c[I] :: else fi;
	c[I]=j; if :: note[I]==j || !USED(I,note[I]) -> note[I]=0 :: else fi;
	 ce[I]=j; st[I]=LIVE; CUT(alien,I); CUT(taken,I); after(I);
	if
	:: !L5 ->
		if :: te[X(I,0)] -> te[X(I,0)]=j :: else fi;
		if :: te[X(I,1)] -> te[X(I,1)]=j :: else fi
	:: else
	fi;
	printf("STEP %d begins epoch %d\n",I,j); j=0
}
#define CANBEGIN(i) (!USED(i,1) || (NE>1 && !USED(i,2)) || (NE>2 && !USED(i,3)) || (!L5NEW && c[i] && st[i]==EMPTY && note[i]!=c[i]))

/* when i may take lock k, by what its view says */
#define WAITED(i,k) (ag[X(i,k)]>=T)
#define MAYTAKE(i,k) (IN(lcur,X(i,k)) && (h[k]==FREE || IN(ns,X(i,k)) || \
	(h[k]==GONE && (WAITED(i,k) || TERM(i,k))) || \
	(h[k]==i+1 && !te[X(i,k)] && (IN(own,X(i,k)) || WAITED(i,k))) || \
	(h[k]==2-i && !e[k] && (WAITED(i,k) || !L2WAIT)) || \
	(h[k]==2-i && e[k] && (IN(dead,X(i,k)) || !L2WITHDRAW) && (WAITED(i,k) || !L2WAIT || !L7))))
#define MAYWITHDRAW(i,k) (L2WITHDRAW && IN(lcur,X(i,k)) && h[k]==2-i && e[k] && (WAITED(i,k) || !L2EARLY || !L2WAIT) && \
	(!IN(pend,X(i,k)) || !L2CAS) && !IN(dead,X(i,k)) && (ISLIVE(1-i,e[k]) || !OVER(1-i,k)))

inline withdraw(I,K) {
	before(1-I); cut=e[K];
	if :: L3==1 -> note[1-I]=cut :: else fi;
	if :: st[1-I]!=LIVE || c[1-I]==cut -> st[1-I]=(L3==1 -> WITHDRAWN : EMPTY); CUT(alien,1-I); CUT(taken,1-I) :: else fi;
	foreign(1-I);
	after(1-I);
	k=0;
	do
	:: k<NL ->
		if :: !L2CAS -> CUT(pend,X(I,k)) :: else fi; /* for it notes the heartbeat that it waited on */
		if :: IN(lcur,X(I,k)) && h[k]==2-I && e[k]==cut && !IN(pend,X(I,k)) -> ADD(dead,X(I,k)) :: else fi; k++
	:: else -> break
	od;
	k=0; cut=0
}

inline landbeat(I) {
	hs[I]=LANDED; CUT(vr,I); k=0;
	do
	:: k<NL ->
		if :: h[k]==I+1 && e[k]==c[I] && IN(lcur,X(1-I,k)) -> ADD(pend,X(1-I,k)) :: else fi; k++
	:: else -> break
	od;
	k=0; printf("STEP the heartbeat of %d lands\n",I)
}
inline hearbeat(I) {
	printf("STEP the heartbeat of %d is answered\n",I);
	if :: IN(vr,I) || !L1REACH || !L1VIEW -> confirm(I) :: else -> hs[I]=ANSWERED fi
}
inline landtake(I) {
	tk[I]=LANDED; j=tkk[I]; h[j]=I+1; e[j]=tke[I]; changed(j,2); ADD(own,X(I,j)); CUT(vo,X(I,j)); if :: IN(tu,I) -> ADD(lost,j) :: else fi;
	printf("STEP lock %d is taken by %d\n",j,I); j=0
}
inline heartake(I) {
	j=tkk[I]; printf("STEP %d hears that it has lock %d\n",I,j);
	if :: IN(own,X(I,j)) -> ADD(lcur,X(I,j)); ag[X(I,j)]=0 :: else fi;
	if
	:: (tka[I]<=D || !L1SENT) && IN(tf,I) && !IN(gave,X(I,j)) ->
		te[X(I,j)]=tke[I]; tra[X(I,j)]=(L1SENT -> tka[I] : 0); check(j)
	:: else
	fi;
	j=0; droptake(I)
}

/* a release by a note, as an elector writes it that has lost nothing; and later in the lock itself */
#if E_NOTE
#define OFNOTE(K) \
	:: d_step { IN(E_NOTE,i) && !calm && UP(i) && TERM(i,K) && te[X(i,K)]==ce[i] && !nw[i] && !(tk[i] && tkk[i]==K) -> \
		if :: L8TERM -> endterm(X(i,K)) :: else fi; \
		nw[i]=K+1; nwe[i]=ce[i]; if :: IN(own,X(i,K)) -> ADD(nf,i) :: else -> CUT(nf,i) fi; \
		printf("STEP %d sends: note that lock %d is released\n",i,K) } \
	:: d_step { nw[i]==K+1 && ISLIVE(i,nwe[i]) -> \
		if :: IN(nf,i) || !L8VERSION -> ADD(nt,X(i,K)); ne[X(i,K)]=nwe[i] :: else fi; \
		nw[i]=0; nwe[i]=0; CUT(nf,i); foreign(i); printf("STEP the note of %d on lock %d lands\n",i,K) } \
	:: d_step { nw[i]==K+1 -> nw[i]=0; nwe[i]=0; CUT(nf,i); printf("STEP the note of %d is lost\n",i) } \
	:: d_step { UP(i) && IN(nt,X(i,K)) && L8VERSION && IN(lcur,X(i,K)) && h[K]==i+1 && !te[X(i,K)] && !(tk[i] && tkk[i]==K) -> \
		h[K]=FREE; e[K]=0; changed(K,i); printf("STEP %d writes the release of lock %d\n",i,K) }
#else
#define OFNOTE(K)
#endif

/* steps of process i about lock K */
#define OFLOCK(K) \
	:: d_step { UP(i) && IN(HOLDS,i) && ce[i] && tk[i]==NONE && !IN(gave,X(i,K)) && MAYTAKE(i,K) && !(calm && TERM(i,K) && h[K]!=GONE) -> \
		tk[i]=SENT; tkk[i]=K; tke[i]=ce[i]; ADD(tf,i); if :: h[K]==GONE -> ADD(tc,i) :: else fi; \
		printf("STEP %d sends: take lock %d in epoch %d\n",i,K,ce[i]); \
		if :: !IN(SLOWTAKE,i) -> landtake(i); heartake(i) :: else fi } \
	:: d_step { UP(i) && IN(HOLDS,i) && MAYWITHDRAW(i,K) -> \
		printf("STEP %d withdraws epoch %d of %d\n",i,e[K],1-i); withdraw(i,K) } \
	:: d_step { L6 && UP(i) && ce[i] && IN(lcur,X(i,K)) && h[K]==i+1 && e[K]==ce[i] && (!te[X(i,K)] || E_LATE) -> \
		e[K]=0; changed(K,i); printf("STEP %d detaches lock %d\n",i,K) } \
	:: d_step { E_RELEASE && !calm && UP(i) && TERM(i,K) && !(tk[i] && tkk[i]==K) -> \
		endterm(X(i,K)); if :: IN(own,X(i,K)) -> h[K]=FREE; e[K]=0; changed(K,2) :: else fi; printf("STEP %d releases lock %d\n",i,K) } \
	OFNOTE(K) \
	:: d_step { IN(E_GIVEUP,i) && !calm && UP(i) && TERM(i,K) && !IN(gave,X(i,K)) -> \
		endterm(X(i,K)); ADD(gave,X(i,K)); printf("STEP %d: the elector of lock %d is gone\n",i,K) }

proctype Process(byte i) {
	do
	:: d_step { UP(i) && NEWS(i) -> look(i) }
	OFLOCK(0)
#if NL>1
	OFLOCK(1)
#endif
	:: d_step { UP(i) && IN(HOLDS,i) && IN(BEGINS,i) && !ce[i] && IN(kf,i) && CANBEGIN(i) -> begin(i) }

	/* the heartbeat */
	:: d_step { !calm && UP(i) && IN(BEATS,i) && ce[i] && hs[i]==NONE && IN(kf,i) ->
		hs[i]=SENT; printf("STEP %d sends: heartbeat\n",i);
		if :: !IN(SLOWBEAT,i) -> landbeat(i); hearbeat(i) :: else fi }
	:: d_step { hs[i]==SENT && IN(kf,i) -> landbeat(i) }
	:: d_step { UP(i) && hs[i]==LANDED -> hearbeat(i) }
	/* the acquisition */
	:: d_step { tk[i]==SENT && (IN(tf,i) || h[tkk[i]]==GONE) -> landtake(i) }
	:: d_step { UP(i) && tk[i]==LANDED -> heartake(i) }
#if E_LOST
	:: d_step { !calm && tk[i] -> droptake(i); printf("STEP the acquisition of %d, or its answer, is lost\n",i) }
	:: d_step { !calm && (hs[i]==SENT || hs[i]==LANDED) ->
		if :: hs[i]==LANDED -> CUT(kf,i) :: else fi; drophb(i); printf("STEP the heartbeat of %d, or its answer, is lost\n",i) }
#endif
#if E_CRASH
	:: d_step { !calm && UP(i) && i==0 -> ADD(off,i); endterm(X(i,0)); endterm(X(i,1)); printf("STEP %d crashes\n",i) }
#endif
	od
}

/* in calm, a living process's heartbeats keep its terms, and keep others waiting */
#define KEPT(i,k) (calm && HEALTHY(i) && te[X(i,k)]==ce[i] && IN(own,X(i,k)))
#define BEATEN(i,k) (calm && h[k]==2-i && e[k] && HEALTHY(1-i) && e[k]==ce[1-i])
#define TRUSTAGES(i,k) (te[X(i,k)] && !KEPT(i,k))
#define WAITAGES(i,k) (ag[X(i,k)]<T && IN(lcur,X(i,k)) && (h[k]==2-i || h[k]==GONE || (h[k]==i+1 && !IN(own,X(i,k)))) && !BEATEN(i,k))
#define AGES(i,k) (TRUSTAGES(i,k) || WAITAGES(i,k))
#define SENTAGES(i) ((tk[i] && tka[i]<NOT) || (hs[i] && ha[i]<NOT))

inline age(I,K) {
	if :: TRUSTAGES(I,K) -> tra[X(I,K)]=tra[X(I,K)]+1; if :: tra[X(I,K)]>D -> endterm(X(I,K)) :: else fi :: else fi;
	if :: WAITAGES(I,K) -> ag[X(I,K)]=ag[X(I,K)]+1 :: else fi
}
inline agesent(I) {
	if :: tk[I] && tka[I]<NOT -> tka[I]=tka[I]+1; if :: tk[I]==LANDED && tka[I]==NOT && L1SENT -> droptake(I) :: else fi :: else fi;
	if :: hs[I] && ha[I]<NOT -> ha[I]=ha[I]+1; if :: hs[I]>SENT && ha[I]==NOT && L1SENT -> drophb(I) :: else fi :: else fi
}

inline deleted(P) {
#if E_NOTE
	CUT(nt,X(P,0)); CUT(nt,X(P,1)); ne[X(P,0)]=0; ne[X(P,1)]=0;
#endif
	if :: h[0]==P+1 && e[0] -> ADD(lost,0) :: else fi;
	if :: h[1]==P+1 && e[1] -> ADD(lost,1) :: else fi;
	if :: tk[P] -> ADD(tu,P) :: else fi
}

#define HANDSOFLOCK(K) \
	:: d_step { !calm && E_LOCK && hands && h[K]!=GONE -> hands--; h[K]=GONE; e[K]=0; changed(K,2); printf("STEP a human deletes or empties lock %d\n",K) }
#define HANDSOFLIVENESS(P) \
	:: d_step { !calm && E_HB && hands && st[P]==LIVE -> hands--; before(P); st[P]=EMPTY; if :: E_BACK -> ADD(taken,P) :: else fi; foreign(P); after(P); printf("STEP a human empties the liveness Lease of %d\n",P) } \
	:: d_step { !calm && E_HB && hands && st[P]!=AWAY -> hands--; before(P); if :: E_BACK && st[P]==LIVE -> ADD(taken,P) :: else -> CUT(taken,P) fi; deleted(P); st[P]=AWAY; note[P]=0; CUT(alien,P); foreign(P); after(P); printf("STEP a human deletes the liveness Lease of %d\n",P) }
#define BACKLIVENESS(P) \
	:: d_step { !calm && IN(taken,P) -> before(P); if :: st[P]==AWAY && L4UID -> ADD(alien,P) :: else fi; CUT(taken,P); st[P]=LIVE; foreign(P); after(P); printf("STEP a human puts the liveness Lease of %d back\n",P) }
#define BACKLOCK(K,P) \
	:: d_step { !calm && hands && c[P] && E_BACK==2 -> hands--; h[K]=P+1; e[K]=c[P]; changed(K,2); printf("STEP a human writes lock %d as %d held it once\n",K,P) }

proctype World() {
	do
	:: d_step { AGES(0,0) || AGES(1,0) || AGES(0,1) || AGES(1,1) || SENTAGES(0) || SENTAGES(1) ->
		age(0,0); age(1,0); age(0,1); age(1,1); agesent(0); agesent(1); printf("STEP tick\n") }
#if E_HAND
	HANDSOFLOCK(0)
	HANDSOFLIVENESS(0)
#if HOLDS&2
	HANDSOFLIVENESS(1)
#endif
#if NL>1
	HANDSOFLOCK(1)
#endif
#endif
#if E_BACK
	BACKLIVENESS(0)
#if HOLDS&2
	BACKLIVENESS(1)
#endif
	BACKLOCK(0,0)
	BACKLOCK(0,1)
#endif
#if E_NOTE && E_HAND
	:: d_step { !calm && E_HB && hands && nt -> hands--; nt=0; ne[0]=0; ne[1]=0; ne[2]=0; ne[3]=0; foreign(0); foreign(1); printf("STEP a human removes the notes\n") }
#endif
#if REACH==1
	:: d_step { TERM(1,0) && TERM(1,NL-1) -> assert(0) }
#elif REACH==2
	:: d_step { TERM(1,0) && TERM(0,1) && hs[0]==NONE && hs[1]==NONE -> assert(0) }
#elif REACH==3
	:: d_step { HEALTHY(0) && c[0]!=1 && TERM(0,0) -> assert(0) }
#elif REACH==4
	:: d_step { tk[1]==SENT && tkk[1]==0 && h[0]==1 && IN(ns,X(1,0)) && ag[X(1,0)]<T -> assert(0) }
#endif
#if CALM
	:: d_step { !calm -> calm=1; printf("STEP no more faults\n") }
	:: calm && timeout ->
		d_step {
			k=0; do :: k<NL && (TERM(0,k) || TERM(1,k)) -> k++ :: else -> break od;
			idle=(k<NL); if :: idle -> printf("STEP nobody can take lock %d\n",k) :: else fi; k=0
		}
		assert(!idle); break
#endif
	od
}

init {
	d_step {
		st[0]=LIVE; c[0]=1; ce[0]=1; st[1]=LIVE; c[1]=1; ce[1]=1;
		h[0]=1; e[0]=1; tra[1]=NOT; tra[2]=NOT; tra[3]=NOT; te[0]=1;
		own=1; lcur=15; kf=3; hands=E_HAND;
		if
		:: NL==1 -> h[1]=FREE
		:: NL==2 && OWNER==0 -> h[1]=1; e[1]=1; te[1]=1; tra[1]=0; own=3
		:: else -> h[1]=2; e[1]=1; te[3]=1; tra[3]=0; own=9
		fi;
		vo=(L1REACH -> 0 : own)
	}
	atomic { run Process(0); run Process(1); run World() }
}
